internal import Bytes
internal import Orchestration
internal import Vocabulary

/// The leader's calls to nodes about the copies of one bucket, many vBuckets per call.
///
/// A node that does not answer, or refuses, is missing from the result: the reconciler decides without
/// it.
struct CopyCalls: Sendable {
    let calls: PeerCalls
    let term: UInt64

    func ask(_ question: CopyQuestion) async -> ActionResult {
        switch question.kind {
        case .reports(let asked): .reports(await reports(PeerKind.reports, asked, for: question))
        case .seal(let asked): .reports(await reports(PeerKind.seal, asked, for: question))
        case .activate(let asked):
            .activated(
                await all(PeerKind.activate, asked, for: question) { bytes in
                    DoneAnswer(message: bytes).map { answer in Set(answer.done.map(\.vBucket)) }
                }
            )
        case .handOver(let asked):
            .handedOver(
                await all(PeerKind.handOver, asked, for: question) { DoneAnswer(message: $0)?.done }
                    .values.joined().reduce(into: [:]) { $0[$1.vBucket] = $1.seqno }
            )
        }
    }

    private func reports(
        _ kind: UInt16,
        _ asked: [NodeNumber: [FencedVBucket]],
        for question: CopyQuestion
    ) async -> CopyReports {
        await all(kind, asked, for: question) { bytes in
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
    private func all<Subject: LeaderSubject, Answer: Sendable>(
        _ kind: UInt16,
        _ asked: [NodeNumber: [Subject]],
        for question: CopyQuestion,
        read: @escaping @Sendable ([UInt8]) -> Answer?
    ) async -> [NodeNumber: Answer] {
        await withTaskGroup(of: (NodeNumber, Answer?).self) { group in
            for (node, subjects) in asked.sorted(by: { $0.key < $1.key }) {
                let call = LeaderCall(
                    term: term,
                    index: question.index,
                    bucketUUID: question.bucketUUID,
                    subjects: subjects
                ).encoded
                group.addTask { [calls] in  // tidy:allow a child of a task that is on the lane
                    let result = await calls.call(
                        kind,
                        call,
                        to: node,
                        timeoutNanoseconds: question.timeoutNanoseconds
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
