internal import Foundation

/// The result of a test.
struct Outcome: Sendable {
    struct Loading: Sendable {
        let documents: Int
        let seconds: Double
        /// Processor time of the server, if its process is known.
        let serverSeconds: Double
    }

    struct Reading: Sendable {
        let time: UInt64
        let use: CPUUse
    }

    /// Everything between the first reading and the last.
    struct Measured: Sendable {
        let start: Reading
        let end: Reading
        let tally: Tally
        let lagMax: UInt64
        let persistence: PersistenceSampler.Outcome?

        var nanoseconds: Double { Double(end.time - start.time) }
        var seconds: Double { nanoseconds / 1e9 }
        var opsPerSecond: Double { Double(tally.replies) / seconds }

        /// Nanoseconds of processor time an operation.
        var serverPerOp: Double { perOp(end.use.server - start.use.server) }
        var driverPerOp: Double { perOp(end.use.driver - start.use.driver) }

        /// Share of one core: 1 is a fully used core.
        var serverUse: Double { Double(end.use.server - start.use.server) / nanoseconds }
        var driverUse: Double { Double(end.use.driver - start.use.driver) / nanoseconds }

        var coresBusy: [Double] { CPUUse.busy(from: start.use, to: end.use) }

        private func perOp(_ nanoseconds: UInt64) -> Double {
            tally.replies == 0 ? 0 : Double(nanoseconds) / Double(tally.replies)
        }
    }

    let workload: Workload
    let target: LoadTest.Target
    /// The number of operations in flight through the client library; nil for the driver's own
    /// connections.
    var underWay: Int?
    let date = Date.now
    /// Nil if the test only loaded documents.
    var measured: Measured?
    var loading: Loading?

    init(
        workload: Workload,
        target: LoadTest.Target,
        underWay: Int? = nil,
        measured: Measured? = nil,
        loading: Loading? = nil
    ) {
        self.workload = workload
        self.target = target
        self.underWay = underWay
        self.measured = measured
        self.loading = loading
    }
}
