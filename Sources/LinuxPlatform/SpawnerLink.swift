internal import CLinux
internal import Glibc
internal import Seams

/// The front's end of its connection to the spawner, with the children that the spawner started.
///
/// - All calls come on the loop's thread.
/// - The link is the first target of its loop, so that it is the first to stop: then each child has its end.
final class SpawnerLink: ReadinessTarget,
    @unchecked Sendable  // tidy:allow one thread
{
    private let socket: Int32
    private let rules: SpawnRules
    private let loop: Reactor
    /// Called once when the spawner has ended while the front needed it.
    private let lost: () -> Void
    private var slot: Int?
    /// By number; until their ends.
    private var children: [UInt32: LinuxChild] = [:]
    private var lastNumber: UInt32 = 0
    /// Requests that the socket had no room for, in their order.
    private var unsent: [[UInt8]] = []

    /// How long a stop waits for the ends of all children.
    private static let stopMilliseconds: Int32 = 2_000

    init(socket: Int32, rules: SpawnRules, loop: Reactor, lost: @escaping () -> Void) {
        self.socket = socket
        self.rules = rules
        self.loop = loop
        self.lost = lost
    }

    func open() {
        let events = divan_event_in | divan_event_out | divan_event_edge
        slot = loop.watch(socket, events: events, by: self)
        precondition(slot != nil, "the kernel has no memory to watch the spawner")
    }

    // MARK: Requests

    func start(_ child: LinuxChild, number: UInt32) {
        guard !child.endIfKilled() else { return }
        guard slot != nil else { return child.fail(endedError(child.program.name)) }
        let request = SpawnRequest(start: number, child.program).bytes
        guard request.count <= SpawnRequest.bytesMax else {
            return child.fail(SystemError.child(E2BIG, rules.path(of: child.program.name)))
        }
        children[number] = child
        send(request)
    }

    func kill(_ number: UInt32) {
        guard slot != nil, children[number] != nil else { return }
        send(SpawnRequest.kill(child: number).bytes)
    }

    private func send(_ request: [UInt8]) {
        unsent.append(request)
        sendUnsent()
    }

    private func sendUnsent() {
        var sent = 0
        while sent < unsent.count, divan_send_request(socket, unsent[sent], unsent[sent].count) == 0
        {
            sent += 1
        }
        // Any error but a full socket means that the spawner has ended, which the reader sees.
        unsent.removeFirst(sent)
    }

    // MARK: Reports

    func ready(_ events: UInt32) {
        sendUnsent()
        guard slot != nil, !receiveReports() else { return }
        close()
        lost()
        endAll { child in child.fail(endedError(child.program.name)) }
    }

    /// Handles all reports that came; false if no more come.
    private func receiveReports() -> Bool {
        while true {
            var report = divan_spawn_report()
            var descriptors = [Int32](repeating: -1, count: Int(divan_spawn_descriptors))
            switch divan_receive_report(socket, &report, &descriptors) {
            case 1: handle(report, descriptors)
            case 0: return false
            default: return errno == EAGAIN
            }
        }
    }

    private func handle(_ report: divan_spawn_report, _ descriptors: [Int32]) {
        guard let child = children[report.child], let kind = SpawnReport(rawValue: report.kind)
        else {
            for descriptor in descriptors where descriptor >= 0 { Glibc.close(descriptor) }
            return
        }
        let path = rules.path(of: child.program.name)
        switch kind {
        case .started: begin(child, report.child, descriptors: descriptors, path: path)
        case .refused:
            children[report.child] = nil
            child.fail(report.value == 0 ? refusal(path) : SystemError.child(report.value, path))
        case .ended:
            children[report.child] = nil
            let isSignal = report.is_signal != 0
            child.conclude(isSignal ? .signalled(report.value) : .exited(status: report.value))
        }
    }

    private func begin(
        _ child: LinuxChild,
        _ number: UInt32,
        descriptors: [Int32],
        path: String
    ) {
        guard descriptors.allSatisfy({ $0 >= 0 }) else {
            // This process has no descriptors left.
            for descriptor in descriptors where descriptor >= 0 { Glibc.close(descriptor) }
            kill(number)
            children[number] = nil
            return child.fail(SystemError.child(EMFILE, path))
        }
        let system = divan_child(
            handle: -1,
            channel: descriptors[0],
            messages: descriptors[1],
            memory: descriptors[2]
        )
        child.begin(system, path: path, on: loop)
    }

    private func refusal(_ path: String) -> ChildError {
        ChildError(
            code: .denied,
            description: "cannot start \(path): the spawner does not allow it with these arguments"
        )
    }

    private func endedError(_ program: String) -> ChildError {
        ChildError(code: .other, description: "cannot start \(program): \(SpawnerLink.endedText)")
    }

    static let endedText =
        "the process that starts script processes has ended; restart this program"

    // MARK: The end

    /// The loop stops: the spawner kills all children, reports their ends, and ends.
    func abandon() {
        guard slot != nil else { return }
        _ = divan_end_requests(socket)
        let deadline = LinuxClock.waitingNanoseconds() + UInt64(Self.stopMilliseconds) * 1_000_000
        while receiveReports() {
            let now = LinuxClock.waitingNanoseconds()
            guard now < deadline else { break }
            _ = divan_wait_readable(socket, Int32((deadline - now) / 1_000_000 + 1))
        }
        close()
        endAll { child in child.refuse() }
    }

    private func close() {
        guard let watched = slot else { return }
        slot = nil
        unsent = []
        loop.unwatch(socket, slot: watched)
    }

    /// Concludes all children: their spawner has ended, so they have.
    ///
    /// - Parameter refuse: Called with each child without an answer to its start.
    private func endAll(_ refuse: (LinuxChild) -> Void) {
        let ended = children.values
        children = [:]
        for child in ended where !child.conclude(.signalled(0)) { refuse(child) }
    }
}
