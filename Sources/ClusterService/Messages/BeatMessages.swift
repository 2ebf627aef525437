internal import Bytes
internal import Orchestration
internal import Vocabulary

/// A beat, which every node sends to every other node, with the nodes that the sender suspects.
struct BeatMessage: PeerPayload, Hashable {
    var beat: LeaseBeat
    /// Nodes whose beats have not reached the sender for a while, with the duration of the silence.
    var suspects: [FailureTable.Suspicion]
    /// Whether every bucket of the sender serves.
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

/// The answer to a beat: a promise, or the reason for the refusal of one.
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

/// Seqno digests of the served vBuckets by node and bucket, sent twice a second: those of the
/// sender, and the last received ones of each silent node.
struct ServedMessage: PeerPayload, Hashable {
    struct Row: PeerPayload, Hashable {
        /// The node that serves these vBuckets.
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
