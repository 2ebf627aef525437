import Bytes
import DataService
import Persistence
import Seams
import SimulatedPlatform
import Vocabulary

/// A data service on a simulated host, started, stopped and restarted as the server program is.
final class NodeDriver {
    let host: SimulatedHost
    let buckets: [BucketSettings]
    private let verifier: Verifier
    private let world: SimulatedWorld
    private var running: Running?

    /// The objects of one start.
    private final class Running: @unchecked Sendable {
        let service: DocumentService
        let environment: Environment
        let lane: any Lane
        var listener: (any Listener)?
        /// The completions of a clean stop in progress.
        var waiters: [() -> Void] = []

        init(_ environment: Environment) {
            self.environment = environment
            lane = environment.lanes.makeLane("main")
            service = DocumentService(
                environment: environment,
                version: "7.6.2",
                dataDirectory: NodeDriver.directory,
                plainBucketName: nil
            )
        }
    }

    static let directory = "/data"
    static let address = "10.0.0.1"
    static let port: UInt16 = 11_210

    init(world: SimulatedWorld, verifier: Verifier, buckets: [BucketSettings]) {
        self.world = world
        self.verifier = verifier
        self.buckets = buckets
        host = world.addHost(NodeDriver.address, reactors: 2)
        host.onDeath = { [weak self] in self?.startLater() }
    }

    // MARK: Starting

    func start() {
        guard !host.isRunning else { return }
        if let running { finishStart(running) }
        verifier.nodeStarts()
        let running = Running(host.start(tracing: .warning))
        self.running = running
        let buckets = buckets
        running.lane.post { NodeDriver.serve(running, buckets) }
    }

    private static func serve(_ running: Running, _ buckets: [BucketSettings]) {
        let environment = running.environment
        do throws(DiskError) {
            try environment.disk.createDirectory(directory)
            _ = try environment.disk.lockDirectory(directory)
        } catch {
            environment.trace.warning("node", error.description)
            return serveLater(running, buckets)
        }
        for settings in buckets where running.service.bucket(named: settings.name) == nil {
            do throws(StorageError) {
                try running.service.open(settings)
            } catch {
                environment.trace.warning("node", error.description)
                return serveLater(running, buckets)
            }
        }
        running.service.startHousekeeping()
        let address = SocketAddress(host: "0.0.0.0", port: port)
        do throws(NetworkError) {
            running.listener = try running.service.listen(on: address)
        } catch {
            environment.trace.fault("node", error.description)
        }
    }

    /// Retries the start after a disk error, as an operator would.
    private static func serveLater(_ running: Running, _ buckets: [BucketSettings]) {
        running.lane.post(after: 500_000_000) { serve(running, buckets) }
    }

    /// Restarts the process after it ended.
    func startLater() {
        if !host.isRunning, let running { finishStart(running) }
        world.after(50_000_000) { [weak self] in self?.start() }
    }

    // MARK: Ending

    func crash(_ end: (SimulatedHost) -> Void) {
        guard host.isRunning else { return }
        end(host)
        startLater()
    }

    /// Stops the node cleanly, as after SIGTERM; kills it if it has not stopped after 8 s.
    func stop(_ stopped: @escaping () -> Void) {
        guard let running, host.isRunning else { return stopped() }
        running.waiters.append(stopped)
        guard running.waiters.count == 1 else { return }
        running.lane.post { [self] in
            running.listener?.close()
            running.service.stop {
                running.lane.post { [self] in finish(running) }
            }
        }
        world.after(8_000_000_000) { [weak self] in
            guard let self, self.running === running, host.isRunning else { return }
            world.transcript.note("killed: it did not stop in time")
            host.crash()
            finishStart(running)
        }
    }

    private func finish(_ running: Running) {
        guard self.running === running else { return }
        let unpersisted = running.service.buckets.reduce(0) { $0 + $1.totals[.diskQueue] }
        running.service.stopLanes()
        if unpersisted == 0 { verifier.nodeStopped() }
        world.transcript.note("stopped, unpersisted: \(unpersisted)")
        world.after(0) { [self] in
            guard self.running === running else { return }
            host.exit()
            finishStart(running)
        }
    }

    /// Releases the objects of an ended process and calls the completions of its stop.
    private func finishStart(_ running: Running) {
        self.running = nil
        running.service.abandon()
        let waiters = running.waiters
        running.waiters = []
        for waiter in waiters { waiter() }
    }
}

extension NodeDriver: @unchecked Sendable {}
