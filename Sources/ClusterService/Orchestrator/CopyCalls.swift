internal import Bytes
internal import Vocabulary

/// The leader's calls to nodes about the copies of one bucket, many vBuckets per call.
///
/// A node that does not answer, or refuses, is missing from the result: the caller decides without
/// it.
struct CopyCalls: Sendable {
    typealias Reports = [NodeNumber: [VBucketID: CopyReport]]

    /// A node answers in milliseconds unless it is behind in the log or down.
    static let timeoutNanoseconds: UInt64 = 2_000_000_000
    /// A hand-over waits for open durable writes, and for the last changes to arrive.
    static let handOverTimeoutNanoseconds: UInt64 = 5_000_000_000

    let calls: PeerCalls
    let term: UInt64
    let index: UInt64
    let bucketUUID: String

    func reports(from nodes: [NodeNumber]) async -> Reports {
        let call = VBucketsCall(term: term, index: index, bucketUUID: bucketUUID).encoded
        return await reports(PeerKind.reports, nodes.map { ($0, call) })
    }

    /// Asks each node for reports of its listed copies.
    func reports(_ asked: [NodeNumber: [FencedVBucket]]) async -> Reports {
        await reports(PeerKind.reports, questions(asked))
    }

    /// Has each node accept no more changes from the active copies of these fences, for good.
    ///
    /// - Parameters:
    ///   - asked: By node: the copies.
    ///   - timeoutNanoseconds: How long to wait for answers, in nanoseconds.
    /// - Returns: By node that answered: its copies' final reports.
    func seal(
        _ asked: [NodeNumber: [FencedVBucket]],
        timeoutNanoseconds: UInt64 = CopyCalls.timeoutNanoseconds
    ) async -> Reports {
        await reports(PeerKind.seal, questions(asked), timeoutNanoseconds)
    }

    /// Requests each node to activate the chosen copies; returns, by node, the vBuckets that are
    /// ready.
    func activate(_ asked: [NodeNumber: [ActivationSubject]]) async -> [NodeNumber: Set<VBucketID>]
    {
        await all(PeerKind.activate, questions(asked), Self.timeoutNanoseconds) { bytes in
            DoneAnswer(message: bytes).map { answer in Set(answer.done.map(\.vBucket)) }
        }
    }

    /// Has active copies stop serving for good; returns the last seqno of each that did.
    func handOver(_ asked: [NodeNumber: [FencedVBucket]]) async -> [VBucketID: Seqno] {
        let answers = await all(
            PeerKind.handOver,
            questions(asked),
            Self.handOverTimeoutNanoseconds
        ) { bytes in DoneAnswer(message: bytes)?.done }
        var ended: [VBucketID: Seqno] = [:]
        for done in answers.values.joined() { ended[done.vBucket] = done.seqno }
        return ended
    }

    private func questions<Subject: LeaderSubject>(
        _ asked: [NodeNumber: [Subject]]
    ) -> [(NodeNumber, [UInt8])] {
        asked.sorted { $0.key < $1.key }.map { node, subjects in
            let call = LeaderCall(
                term: term,
                index: index,
                bucketUUID: bucketUUID,
                subjects: subjects
            )
            return (node, call.encoded)
        }
    }

    private func reports(
        _ kind: UInt16,
        _ questions: [(NodeNumber, [UInt8])],
        _ timeoutNanoseconds: UInt64 = CopyCalls.timeoutNanoseconds
    ) async -> Reports {
        await all(kind, questions, timeoutNanoseconds) { bytes in
            guard let answer = ReportsAnswer(message: bytes), answer.refusal.isEmpty else {
                return nil
            }
            return Dictionary(
                answer.reports.map { ($0.vBucket, $0) },
                uniquingKeysWith: { first, _ in first }
            )
        }
    }

    /// Sends all calls at once; returns the answers that arrived in time.
    private func all<Answer: Sendable>(
        _ kind: UInt16,
        _ questions: [(NodeNumber, [UInt8])],
        _ timeoutNanoseconds: UInt64,
        _ read: @escaping @Sendable ([UInt8]) -> Answer?
    ) async -> [NodeNumber: Answer] {
        await withTaskGroup(of: (NodeNumber, Answer?).self) { group in
            for (node, call) in questions {
                group.addTask { [calls] in  // tidy:allow a child of a task that is on the lane
                    let result = await calls.call(
                        kind,
                        call,
                        to: node,
                        timeoutNanoseconds: timeoutNanoseconds
                    )
                    guard case .success(let bytes) = result else { return (node, nil) }
                    return (node, read(bytes))
                }
            }
            var answers: [NodeNumber: Answer] = [:]
            for await (node, answer) in group { answers[node] = answer }
            return answers
        }
    }
}
