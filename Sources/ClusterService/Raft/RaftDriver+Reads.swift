package import Consensus
internal import Seams

/// Callers that wait for an index up to which the state is current.
struct ReadLine {
    struct Read {
        var contexts: [UInt64] = []
        var deadline: UInt64
        var askedAt: UInt64
        /// The state is current once this index is applied; nil until the leader answered.
        var index: LogIndex?
        var done: (Result<LogIndex, ClusterError>) -> Void
    }

    var reads: [Read] = []
    var nextContext: UInt64 = 1

    init(firstContext: UInt64 = 1) { nextContext = firstContext }

    var isEmpty: Bool { reads.isEmpty }

    /// The asked node may have lost the leadership: ask again.
    mutating func askAgain() {
        for place in reads.indices where reads[place].index == nil { reads[place].askedAt = 0 }
    }

    mutating func removeAll() -> [Read] {
        defer { reads = [] }
        return reads
    }

    mutating func remove(where isDue: (Read) -> Bool) -> [Read] {
        let due = reads.filter(isDue)
        if !due.isEmpty { reads.removeAll(where: isDue) }
        return due
    }
}

/// Linearizable reads: the leader confirms an index, and this node waits until it is applied.
extension RaftDriver {
    /// How long to wait for the leader's answer before it is asked again.
    private static var timeoutNanoseconds: UInt64 { 200_000_000 }

    /// Calls `done` with an applied index that includes everything committed before this call.
    package func readIndex(
        timeout: UInt64 = 500_000_000,
        done: @escaping (Result<LogIndex, ClusterError>) -> Void
    ) {
        if case .stopped = life {
            return done(.failure(.stopping))
        }
        reads.reads.append(.init(deadline: now + timeout, askedAt: 0, done: done))
        run()
    }

    /// Waits for the current index, for callers on any thread.
    ///
    /// - Throws: `ClusterError`: `.noQuorum` after the timeout, `.disk`, or `.stopping`.
    package func readIndex(timeout: UInt64 = 500_000_000) async throws(ClusterError) -> LogIndex {
        let result: Result<LogIndex, ClusterError> = await withUnsafeContinuation { waiter in
            lane.post { self.readIndex(timeout: timeout) { waiter.resume(returning: $0) } }
        }
        return try result.get()
    }

    func handleReadAnswer(_ answer: ReadAnswer) {
        let place = reads.reads.firstIndex { $0.contexts.contains(answer.context) }
        guard let place, case .index(let index) = answer.result else { return }
        // Every request was sent after the read began, so the answer to any of them is valid.
        reads.reads[place].index = min(index, reads.reads[place].index ?? .max)
    }

    func finishReads() {
        for place in reads.reads.indices where reads.reads[place].askedAt == 0 {
            guard raft.leader != nil else { break }
            let context = reads.nextContext
            reads.nextContext += 1
            reads.reads[place].contexts.append(context)
            reads.reads[place].askedAt = max(now, 1)
            enqueue(.read(context: context))
        }
        for read in reads.remove(where: { $0.index.map { $0 <= applied } ?? false }) {
            let index = applied
            callbacks.append { read.done(.success(index)) }
        }
    }

    func expireReads(_ now: UInt64) {
        for place in reads.reads.indices where reads.reads[place].index == nil {
            if now >= reads.reads[place].askedAt + Self.timeoutNanoseconds {
                reads.reads[place].askedAt = 0
            }
        }
        for read in reads.remove(where: { $0.deadline <= now }) {
            let error = noQuorum
            callbacks.append { read.done(.failure(error)) }
        }
    }
}
