internal import Vocabulary

/// Linearizable reads without a log entry (ReadIndex, thesis 6.4): the leader returns its commit
/// index once a round of heartbeats proves that it still led after the read was requested.
extension Raft {
    mutating func read(_ context: UInt64) {
        if isLeader { return beginRead(context, for: node) }
        guard let leader else {
            outbox.ready.reads.append(ReadAnswer(context: context, result: .noLeader))
            return
        }
        send(.readRequest(context: context), to: leader)
    }

    mutating func beginRead(_ context: UInt64, for reader: NodeNumber) {
        // Until the leader commits an entry of its term, it does not know what earlier leaders
        // committed.
        guard log.term(at: log.commit) == term else {
            leading.earlyReads.append((reader, context))
            return
        }
        sendHeartbeats()
        leading.reads.append(
            .init(round: leading.round, index: log.commit, reader: reader, context: context)
        )
        answerReads()
    }

    mutating func beginEarlyReads() {
        let early = leading.earlyReads
        leading.earlyReads = []
        for read in early { beginRead(read.context, for: read.reader) }
    }

    /// Answers the reads whose heartbeat round a quorum has acknowledged: no later term had a
    /// leader when that round began.
    mutating func answerReads() {
        guard isLeader, !leading.reads.isEmpty else { return }
        let proved = configuration.committed { peer in
            peer == node ? leading.round : leading.progress[peer]?.round ?? 0
        }
        while let read = leading.reads.first, read.round <= proved {
            leading.reads.removeFirst()
            if read.reader == node {
                outbox.ready.reads.append(
                    ReadAnswer(context: read.context, result: .index(read.index))
                )
            } else {
                send(.readResponse(context: read.context, index: read.index), to: read.reader)
            }
        }
    }

    mutating func refuseReads(_ result: ReadAnswer.Result) {
        let contexts =
            leading.reads.filter { $0.reader == node }.map(\.context)
            + leading.earlyReads.filter { $0.reader == node }.map(\.context)
        for context in contexts {
            outbox.ready.reads.append(ReadAnswer(context: context, result: result))
        }
        leading.reads = []
        leading.earlyReads = []
    }
}
