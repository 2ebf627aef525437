internal import Bytes
internal import Seams
internal import Vocabulary
internal import Wire

/// One end of a stream of a link: what it may send, and what its handler has not handled yet.
///
/// - Its reactor's thread has all but `asked`, which the link's lock protects.
final class LinkStream: StreamPort,
    @unchecked Sendable  // tidy:allow belongs to the link's reactor, and its requests to a lock
{
    /// Requests of other threads.
    struct Asked {
        /// Whether the link has the stream in its list of asked streams.
        var isListed = false
        var isWoken = false
        var isEnded = false
        var reason: String?
        var released = 0
    }

    let number: UInt64
    let service: NodeService
    let row: NodeService.Row
    let link: NodeLink
    var asked = Asked()
    /// Nil once the stream is over.
    var handler: (any StreamHandler)?
    /// Bytes that the other side lets this one send.
    private var credit: Int
    /// Whether the link has the stream in its queue of streams that may send.
    var isQueued = false
    /// Large messages and those behind them, of which `sentBytes` of the first one were sent.
    private(set) var outbox: [[UInt8]] = []
    private var sentBytes = 0
    /// Whether the stream is over once the outbox was sent.
    private var isFinishing = false
    /// Bytes that the other side may send.
    private var allowance: Int
    /// Bytes that were handled, and of which the other side was not told.
    private var handledBytes = 0
    /// Bytes of an incomplete message, then of the same message, of which the other side was told.
    private var creditedBytes = 0
    /// Bytes of whole messages that are not handled.
    private var waitingBytes = 0
    private var partial: [UInt8] = []
    /// Messages that the handler could not handle yet.
    private var inbox: [[UInt8]] = []
    /// Whether the other side has ended the stream, after the messages of the inbox.
    private var isEnding = false

    init(_ number: UInt64, _ service: NodeService, of link: NodeLink) {
        self.number = number
        self.service = service
        self.link = link
        row = service.row
        credit = row.windowBytes
        allowance = row.windowBytes
    }

    // MARK: StreamPort

    var node: NodeNumber { link.node }
    var reactor: Int { link.port.reactor }

    func wake() { link.ask(self) { $0.isWoken = true } }

    func end(_ reason: String?) {
        link.ask(self) { asked in
            if !asked.isEnded { asked.reason = reason }
            asked.isEnded = true
        }
    }

    func release(_ bytes: Int) { link.ask(self) { $0.released += bytes } }

    // MARK: Receiving

    /// Handles a frame of a message; returns what is wrong with it, which ends the link.
    func receive(_ payload: ByteView, isLast: Bool) -> String? {
        guard allowance > 0 else { return "more than stream \(number) may send" }
        allowance -= payload.count
        guard partial.count + payload.count <= row.messageBytesMax else {
            return "a message of more than \(row.messageBytesMax) bytes"
        }
        if isLast, partial.isEmpty {
            receive(message: payload)
            return nil
        }
        partial.append(contentsOf: payload.buffer)
        if isLast {
            let message = partial
            partial = []
            message.withUnsafeBytes { receive(message: ByteView($0)) }
        } else {
            allowPartial()
        }
        return nil
    }

    private func receive(message: ByteView) {
        waitingBytes += message.count
        if !inbox.isEmpty || !deliver(message) { inbox.append(message.bytes) }
        link.queue(self)
    }

    /// Gives a message to the handler; false if it cannot handle it now.
    private func deliver(_ message: ByteView) -> Bool {
        guard let handler else { return true }
        switch handler.receive(message) {
        case .handled: release(handled: message.count)
        case .kept: break
        case .paused: return false
        case .invalid(let flaw): link.refuse(self, flaw)
        }
        return true
    }

    /// The other side has ended the stream.
    func end(by reason: String?) {
        if reason == nil, !inbox.isEmpty {
            isEnding = true
        } else {
            link.remove(self, reason)
        }
    }

    /// Continues after other threads have asked for it.
    func resume(_ asked: Asked) {
        release(handled: asked.released)
        guard asked.isWoken, handler != nil else { return }
        handler?.wake()
        var count = 0
        while count < inbox.count, inbox[count].withUnsafeBytes({ deliver(ByteView($0)) }) {
            count += 1
        }
        inbox.removeFirst(count)
        if isEnding, inbox.isEmpty { link.remove(self, nil) }
        link.queue(self)
    }

    /// Lets the other side send as many bytes more as a message had that is handled.
    private func release(handled bytes: Int) {
        waitingBytes = max(0, waitingBytes - bytes)
        let known = min(bytes, creditedBytes)
        creditedBytes -= known
        allow(bytes - known)
        allowPartial()
    }

    /// Lets the other side send the rest of a message, which may be larger than the window.
    ///
    /// Not before the earlier messages are handled: a paused stream would fill memory.
    private func allowPartial() {
        guard waitingBytes == 0, partial.count > creditedBytes else { return }
        let bytes = partial.count - creditedBytes
        creditedBytes += bytes
        allow(bytes)
    }

    private func allow(_ bytes: Int) {
        guard bytes > 0 else { return }
        handledBytes += bytes
        guard handledBytes >= row.windowBytes / 4 else { return }
        allowance += handledBytes
        link.sendCredit(handledBytes, of: self)
        handledBytes = 0
    }

    // MARK: Sending

    /// The other side lets this one send more; returns what is wrong with that.
    func receiveCredit(_ bytes: Int) -> String? {
        guard credit + bytes <= row.windowBytes else { return "too much credit" }
        credit += bytes
        link.queue(self)
        return nil
    }

    /// Appends the frames of one turn.
    func send(_ output: ByteWriter) {
        guard let handler else { return }
        if !outbox.isEmpty {
            sendParts(output)
        } else if credit > 0 {
            let turn = LinkOutput(of: self, room: min(credit, NodeStreamLimits.turnBytes), output)
            let start = output.count
            switch handler.send(turn) {
            // One that appends nothing would be called for ever.
            case .again: if output.count > start { link.queue(self) }
            case .asleep, .awaitsCredit: break
            case .over: isFinishing = true
            }
            if !outbox.isEmpty { link.queue(self) }
        }
        guard isFinishing, outbox.isEmpty else { return }
        LinkFrame.append(.end, number, to: output)
        link.remove(self, nil)
    }

    private func sendParts(_ output: ByteWriter) {
        let start = output.count
        while let message = outbox.first, credit > 0,
            output.count - start < NodeStreamLimits.turnBytes
        {
            let count = min(message.count - sentBytes, LinkFrame.payloadBytesMax)
            let isLast = sentBytes + count == message.count
            message.withUnsafeBytes { bytes in
                LinkFrame.append(
                    isLast ? .message : .part,
                    number,
                    payload: ByteView(bytes).slice(sentBytes, count),
                    to: output
                )
            }
            credit -= count
            sentBytes = isLast ? 0 : sentBytes + count
            if isLast { outbox.removeFirst() }
        }
        // Without credit it is queued when some arrives.
        if credit > 0 { link.queue(self) }
    }

    /// No room while messages are kept: a handler may append while there is some.
    fileprivate func room(upTo bytes: Int) -> Int {
        outbox.isEmpty ? max(0, min(bytes, credit)) : 0
    }

    /// Appends one message, or keeps it if it is large or has to wait.
    fileprivate func append(_ output: ByteWriter, _ body: (ByteWriter) -> Void) {
        guard outbox.isEmpty, credit > 0 else {
            let writer = ByteWriter()
            body(writer)
            if writer.count > 0 { outbox.append(writer.bytes) }
            return
        }
        let start = LinkFrame.begin(.message, number, to: output)
        body(output)
        let count = LinkFrame.finish(from: start, in: output)
        if count == 0 {
            output.truncate(to: start)
        } else if count > LinkFrame.payloadBytesMax {
            outbox.append(output.view.slice(start + LinkFrame.headerBytes, count).bytes)
            output.truncate(to: start)
        } else {
            credit -= count
        }
    }
}

/// The output of a stream in one turn.
private final class LinkOutput: StreamOutput {
    private let stream: LinkStream
    private let output: ByteWriter
    private let end: Int

    init(of stream: LinkStream, room: Int, _ output: ByteWriter) {
        self.stream = stream
        self.output = output
        end = output.count + room
    }

    var room: Int { stream.room(upTo: end - output.count) }
    var credit: Int { stream.room(upTo: .max) }

    func append(_ body: (ByteWriter) -> Void) { stream.append(output, body) }
}
