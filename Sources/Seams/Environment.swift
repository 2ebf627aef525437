/// All interfaces to the outside world, as one value that `main` passes down.
///
/// On Linux they are clocks, sockets, files, threads and child processes; in the simulator virtual
/// time, a packet simulator, a simulated disk, one seeded run queue and programs that run in it. No
/// module below the facades knows which.
package struct Environment: Sendable {
    package let time: any TimeSource
    package let entropy: any Entropy
    package private(set) var network: any Network
    package let disk: any Disk
    package let lanes: any LaneFactory
    package let trace: any Trace
    package let children: any ChildProcesses
    /// Secures the connections between nodes; set where they are served.
    package var security: any TransportSecurity = AbsentSecurity()
    /// The descriptors of the process; set once, where they are bounded.
    package var descriptors = Descriptors.unlimited
    /// Returns free memory of the heap to the system, which takes some milliseconds.
    package var returnFreeMemory: @Sendable () -> Void = {}

    package init(
        time: any TimeSource,
        entropy: any Entropy,
        network: any Network,
        disk: any Disk,
        lanes: any LaneFactory,
        trace: any Trace,
        children: any ChildProcesses
    ) {
        self.time = time
        self.entropy = entropy
        self.network = network
        self.disk = disk
        self.lanes = lanes
        self.trace = trace
        self.children = children
    }

    /// The same, with outgoing connections to servers that `trust` believes.
    package func secured(by trust: any ServerTrust) -> Environment {
        var secured = self
        secured.network = SecuredNetwork(network, trust: trust)
        return secured
    }
}

/// The clocks.
package protocol TimeSource: Sendable {
    /// Nanoseconds that never decrease and include sleep (`CLOCK_BOOTTIME`), for durations.
    func monotonicNanoseconds() -> UInt64
    /// Nanoseconds since 1970 by the system clock, which may jump; for expiry and CAS.
    func wallNanoseconds() -> UInt64
    /// A function with the result of `wallNanoseconds`, for callers that read it in each of their turns: a
    /// call through the protocol costs more than the clock. Nil if there is none.
    var wallFunction: (@convention(c) () -> UInt64)? { get }
}

extension TimeSource {
    package var wallFunction: (@convention(c) () -> UInt64)? { nil }
}

/// A source of unpredictable bits.
package protocol Entropy: Sendable {
    /// 64 unpredictable bits.
    func next() -> UInt64
}

extension Entropy {
    /// `count` unpredictable bytes.
    package func bytes(_ count: Int) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(count + 8)
        while bytes.count < count {
            withUnsafeBytes(of: next()) { bytes.append(contentsOf: $0) }
        }
        bytes.removeLast(bytes.count - count)
        return bytes
    }

    /// `count` unpredictable bytes, as lowercase hexadecimal digits.
    package func hex(_ count: Int) -> String {
        let digits = Array("0123456789abcdef".unicodeScalars)
        var text = ""
        for byte in bytes(count) {
            text.unicodeScalars.append(digits[Int(byte >> 4)])
            text.unicodeScalars.append(digits[Int(byte & 15)])
        }
        return text
    }
}
