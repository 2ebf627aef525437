internal import Bytes
internal import Orchestration
internal import Vocabulary

/// "I am here", from every node to every node, and what the sender sees of the others.
struct BeatMessage: PeerPayload, Hashable {
    var beat: LeaseBeat
    /// Nodes that the sender has not heard of for a while, and for how long.
    var suspects: [FailureTable.Suspicion]
    /// The sender has every bucket ready.
    var isReady: Bool

    init(beat: LeaseBeat, suspects: [FailureTable.Suspicion], isReady: Bool) {
        self.beat = beat
        self.suspects = suspects
        self.isReady = isReady
    }

    init?(_ reader: inout ByteReader) {
        guard let node = reader.node(), let boot = reader.bigEndian(UInt64.self),
            let number = reader.leb128(), let applied = reader.leb128(),
            let suspects = reader.all(FailureTable.Suspicion.self), let isReady = reader.flag()
        else { return nil }
        beat = LeaseBeat(node: node, boot: boot, number: number, applied: applied)
        self.suspects = suspects
        self.isReady = isReady
    }

    func append(to writer: ByteWriter) {
        writer.append(beat.node)
        writer.append(bigEndian: beat.boot)
        writer.append(leb: beat.number)
        writer.append(leb: beat.applied)
        writer.append(all: suspects)
        writer.append(isReady)
    }
}

extension FailureTable.Suspicion: PeerPayload {
    init?(_ reader: inout ByteReader) {
        guard let node = reader.node(), let silent = reader.leb128() else { return nil }
        self.init(node: node, silentNanoseconds: silent)
    }

    func append(to writer: ByteWriter) {
        writer.append(node)
        writer.append(leb: silentNanoseconds)
    }
}

/// The answer to a beat: a promise, or why there is none.
struct BeatReplyMessage: PeerPayload, Hashable {
    var reply: LeaseReply

    init(_ reply: LeaseReply) {
        self.reply = reply
    }

    init?(_ reader: inout ByteReader) {
        guard let voter = reader.node(), let boot = reader.bigEndian(UInt64.self),
            let number = reader.leb128(), let isGranted = reader.flag(),
            let refusedAt = isGranted ? 0 : reader.leb128(),
            let term = reader.leb128(), let index = reader.leb128(),
            let voters = reader.nodes(), let outgoing = reader.nodes()
        else { return nil }
        reply = LeaseReply(
            voter: voter,
            boot: boot,
            number: number,
            verdict: isGranted ? .granted : .refused(refusedAt),
            voters: LeaseVoters(term: term, index: index, voters: voters, outgoing: outgoing)
        )
    }

    func append(to writer: ByteWriter) {
        writer.append(reply.voter)
        writer.append(bigEndian: reply.boot)
        writer.append(leb: reply.number)
        switch reply.verdict {
        case .granted: writer.append(true)
        case .refused(let index):
            writer.append(false)
            writer.append(leb: index)
        }
        writer.append(leb: reply.voters.term)
        writer.append(leb: reply.voters.index)
        writer.append(nodes: reply.voters.voters)
        writer.append(nodes: reply.voters.outgoing)
    }
}

/// What the sender serves, bucket by bucket, and what nodes that are silent last said of themselves:
/// twice a second.
struct ServedMessage: PeerPayload, Hashable {
    struct Row: PeerPayload, Hashable {
        /// Who serves it.
        var node: NodeNumber
        var uuid: String
        var highs: ActiveSeqnoDigest

        init(node: NodeNumber, uuid: String, highs: ActiveSeqnoDigest) {
            self.node = node
            self.uuid = uuid
            self.highs = highs
        }

        init?(_ reader: inout ByteReader) {
            guard let node = reader.node(), let uuid = reader.text(),
                let mark = reader.bigEndian(UInt64.self), let sum = reader.leb128()
            else { return nil }
            self.init(node: node, uuid: uuid, highs: ActiveSeqnoDigest(mark: mark, sum: sum))
        }

        func append(to writer: ByteWriter) {
            writer.append(node)
            writer.append(counted: uuid)
            writer.append(bigEndian: highs.mark)
            writer.append(leb: highs.sum)
        }
    }

    var rows: [Row]

    init(rows: [Row]) {
        self.rows = rows
    }

    init?(_ reader: inout ByteReader) {
        guard let rows = reader.all(Row.self) else { return nil }
        self.rows = rows
    }

    func append(to writer: ByteWriter) { writer.append(all: rows) }
}
