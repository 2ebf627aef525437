import TestWorld

/// Checks the messages of a connection that streams changes (DCP and TAP) against the protocol.
///
/// - Changes lie in the announced snapshot, and their seqnos rise; each snapshot continues the
///   stream's position.
/// - A message belongs to a stream that was requested and answered with success, and that has not
///   ended.
/// - Only messages that a client without synchronous replication may see are sent: no prepare, no
///   commit, no abort.
struct ChangesChecker {
    private struct Stream {
        let vBucket: UInt16
        let end: UInt64
        var position: UInt64
        var snapshotEnd: UInt64
        /// False until the first change of a stream "from latest".
        var isPositionKnown: Bool
    }

    /// The answers to requests, in the order of their arrival.
    private(set) var answers: [Reply] = []
    /// For each vBucket the history and the last seqno that a stream had.
    private(set) var known: [UInt16: (uuid: UInt64, seqno: UInt64)] = [:]
    private(set) var messageCount = 0
    private(set) var lastNoop: UInt32?
    /// The last TAP message that asks for an answer.
    private(set) var lastMark: UInt32?
    /// Bytes of stream messages since the last acknowledgement.
    var unacknowledged = 0
    private(set) var isTap = false
    private var requested: [UInt32: Stream] = [:]
    private var streams: [UInt32: Stream] = [:]
    /// Requests to close a stream, with its vBucket.
    private var closing: [UInt32: UInt16] = [:]
    private var closed: Set<UInt32> = []
    /// Another bucket was selected, which ends the streams without a message.
    private var mayHaveEnded = false

    mutating func noteRequest(
        _ opcode: UInt8,
        opaque: UInt32,
        vBucket: UInt16,
        extras: [UInt8]
    ) {
        if opcode == 0x52 { closing[opaque] = vBucket }
        guard opcode == 0x53, extras.count == 48 else { return }
        // "From latest" replaces the start, "to latest" and "disk only" the end.
        let flags = number(extras[0..<4])
        let start = flags & 0x40 != 0 ? 0 : number(extras[8..<16])
        requested[opaque] = Stream(
            vBucket: vBucket,
            end: flags & 0x46 != 0 ? .max : number(extras[16..<24]),
            position: start,
            snapshotEnd: start,
            isPositionKnown: flags & 0x40 == 0
        )
    }

    mutating func note(_ message: Reply) {
        guard message.isRequest else { return recordAnswer(message) }
        messageCount += 1
        let extras = message.extras
        switch message.opcode {
        case 0x5c: lastNoop = message.opaque
        case 0x0a: break
        case 0x41, 0x42, 0x44:
            isTap = true
            require(extras.count >= 8, "a TAP message has its fixed fields")
            if number(extras[2..<4]) & 1 != 0 { lastMark = message.opaque }
        case 0x55...0x59:
            let sizes = [extras, message.key, message.value, message.framing].map(\.count)
            unacknowledged += sizes.reduce(24, +)
            noteStreamMessage(message)
        default: fatalError("opcode \(message.opcode) was sent to a client")
        }
    }

    private mutating func noteStreamMessage(_ message: Reply) {
        let extras = message.extras
        if message.opcode == 0x55 {
            require(extras.count == 4 && number(extras[...]) <= 8, "a stream ends for a reason")
            let isKnown = streams.removeValue(forKey: message.opaque) != nil
            require(isKnown || closed.remove(message.opaque) != nil, "a stream ends once")
            return
        }
        guard var stream = streams[message.opaque] else {
            fatalError("opcode \(message.opcode) belongs to no stream")
        }
        require(message.status == stream.vBucket, "a message has the vBucket of its stream")
        if message.opcode == 0x56 {
            require(extras.count == 20, "markers are of version 1")
            let (start, end) = (number(extras[0..<8]), number(extras[8..<16]))
            require(
                start <= end && start >= stream.position && end > stream.position,
                "the snapshot \(start) to \(end) continues position \(stream.position)"
            )
            stream.snapshotEnd = end
        } else {
            let seqno = number(extras[0..<8])
            require(
                seqno > stream.position && seqno <= stream.snapshotEnd,
                "seqno \(seqno) after \(stream.position), in a snapshot to \(stream.snapshotEnd)"
            )
            require(seqno <= stream.end, "seqno \(seqno) in a stream to \(stream.end)")
            stream.position = seqno
            stream.isPositionKnown = true
            known[stream.vBucket]?.seqno = seqno
        }
        streams[message.opaque] = stream
    }

    private mutating func recordAnswer(_ answer: Reply) {
        answers.append(answer)
        guard answer.status == 0 else { return }
        switch answer.opcode {
        case 0x53:
            guard let stream = requested.removeValue(forKey: answer.opaque) else {
                fatalError("a malformed stream request was accepted")
            }
            require(
                !answer.value.isEmpty && answer.value.count % 16 == 0,
                "an accepted stream has a failover log"
            )
            streams[answer.opaque] = stream
            known[stream.vBucket] = (number(answer.value[0..<8]), stream.position)
        case 0x52: closeStream(answer)
        case 0x21, 0x22, 0x89: mayHaveEnded = true
        default: break
        }
    }

    private mutating func closeStream(_ answer: Reply) {
        guard let vBucket = closing[answer.opaque] else { return }
        for (opaque, stream) in streams where stream.vBucket == vBucket {
            streams[opaque] = nil
            closed.insert(opaque)
        }
    }

    /// Checks that every open stream has every visible change.
    ///
    /// - Parameter highVisible: The newest visible seqno of a vBucket; nil if there is no copy.
    func checkEnd(_ highVisible: (UInt16) -> UInt64?) {
        guard !mayHaveEnded else { return }
        for stream in streams.values where stream.isPositionKnown {
            guard let high = highVisible(stream.vBucket) else { continue }
            require(
                stream.position >= min(high, stream.end),
                "vBucket \(stream.vBucket) has \(high), its stream ended at \(stream.position)"
            )
        }
    }

    private func number(_ bytes: ArraySlice<UInt8>) -> UInt64 {
        bytes.reduce(0) { $0 << 8 | UInt64($1) }
    }
}
