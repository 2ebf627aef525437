internal import Bytes
internal import Scripting
internal import Seams
internal import Wire

/// One script process of the pool: its channel, and the functions that it knows.
///
/// - All calls come from the pool's lane.
final class ScriptProcess: ChildHandler, @unchecked Sendable {  // tidy:allow belongs to a lane
    private let id: ScriptWorkerID
    private weak var pool: ScriptPool?
    private let environment: Environment
    private let category: String
    private var child: (any ChildProcess)?
    private var defined: Set<UInt32> = []
    /// Why the sources of some of these are not functions.
    private(set) var complaints: [UInt32: (line: UInt32, text: String)] = [:]
    /// Frames that the channel had no room for.
    private var waiting: [[UInt8]] = []
    private let output = ByteWriter()

    init(_ id: ScriptWorkerID, _ program: ChildProgram, for pool: ScriptPool) {
        self.id = id
        self.pool = pool
        environment = pool.environment
        category = pool.category
        child = pool.environment.children.start(program, on: pool.lane, self)
    }

    var residentBytes: UInt64? { child?.residentBytes }

    func kill() { child?.kill() }

    /// Sends some of a work's items as a batch, after the definition of its function.
    func send(_ work: ScriptWork, _ items: Range<Int>, batch: UInt32) {
        output.removeAll(keepingAtMost: 1 << 20)
        let function = work.function
        if defined.insert(function.number).inserted {
            function.withDefinition {
                ScriptRequest.appendDefinition($0, batch: 0, to: output)
            }
        }
        work.append(items, batch: batch, to: output)
        transmit()
    }

    func note(_ complaint: ScriptComplaint, about function: UInt32) {
        // A process is not trusted: it may complain of functions that it does not have.
        guard defined.contains(function) else { return }
        complaints[function] = (complaint.line, complaint.text.text)
    }

    func forget(_ function: ScriptFunction) {
        guard defined.remove(function.number) != nil else { return }
        complaints[function.number] = nil
        output.removeAll()
        ScriptRequest.appendForget(function: function.number, batch: 0, to: output)
        transmit()
    }

    private func transmit() {
        guard waiting.isEmpty, child?.send(output.view) != .full else {
            return waiting.append(output.view.bytes)
        }
    }

    // MARK: The process

    func received(_ input: ByteView) -> Int {
        var consumed = 0
        while true {
            let rest = input.dropFirst(consumed)
            switch ScriptFrame.next(in: rest, bytesMax: ScriptLimits.replyBytesMax) {
            case .incomplete: return consumed
            case .frame(let frame):
                pool?.receive(frame, from: id)
                consumed += frame.byteCount
            case .invalid:
                pool?.handle(.violated(id))
                return input.count
            }
        }
    }

    func logged(_ line: String) {
        environment.trace.warning(category, "Script process \(id): \(line)")
    }

    func drained() {
        while let first = waiting.first {
            let outcome = first.withUnsafeBytes { child?.send(ByteView($0)) }
            guard outcome != .full else { return }
            waiting.removeFirst()
        }
    }

    func closed() { child?.kill() }

    func ended(_ end: ChildEnd) {
        child = nil
        if case .notStarted(let error) = end {
            environment.trace.error(category, error.description)
        }
        pool?.ended(id)
    }
}
