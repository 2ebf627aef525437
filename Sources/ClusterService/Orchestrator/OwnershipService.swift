internal import Bytes
package import Orchestration
package import Persistence
package import Seams
internal import Vocabulary

/// This node's side of the leader's calls about copies: report, seal, activate, hand over.
///
/// - Belongs to the control lane.
/// - No call is answered by an older map than the caller's: the node first applies what the caller
///   has applied.
/// - A seal is on disk before the answer, and so is the hand-over of an only copy; the data service
///   stops acknowledging before that.
/// - A call from a leader of an earlier term than the newest known one is refused.
package final class OwnershipService: @unchecked Sendable {  // tidy:allow the control lane's
    /// A follower is a few entries behind at most, or cut off: then the caller continues without
    /// it.
    private static let timeoutNanoseconds: UInt64 = 1_000_000_000

    private let calls: PeerCalls
    private let dataPlane: any DataPlane
    private let sources: Sources
    private let lane: any Lane
    private var newestTerm: UInt64 = 0
    private var waiting: [(index: UInt64, work: (Bool) -> Void)] = []
    private var isStopped = false

    package struct Sources {
        var applied: () -> UInt64
        /// The bucket with this UUID in the applied state; nil if there is none.
        var bucket: (String) -> BucketRecord?
        /// Stores seals on disk.
        var keep:
            ([ControlChange], @escaping @Sendable (Result<Void, ClusterError>) -> Void) -> Void

        package init(
            applied: @escaping () -> UInt64,
            bucket: @escaping (String) -> BucketRecord?,
            keep:
                @escaping (
                    [ControlChange], @escaping @Sendable (Result<Void, ClusterError>) -> Void
                ) -> Void
        ) {
            self.applied = applied
            self.bucket = bucket
            self.keep = keep
        }
    }

    package init(calls: PeerCalls, dataPlane: any DataPlane, lane: any Lane, sources: Sources) {
        self.calls = calls
        self.dataPlane = dataPlane
        self.lane = lane
        self.sources = sources
    }

    package func start() {
        handle(PeerKind.reports, VBucketsCall.self, refused: ReportsAnswer.refused) {
            service,
            call,
            name,
            answer in
            // If files could not be opened, their content is unknown; an ephemeral bucket is then
            // empty.
            let isInFiles = service.sources.bucket(call.bucketUUID)?.settings.type == .persistent
            if isInFiles, service.dataPlane.status(ofBucket: name) == nil {
                return answer(ReportsAnswer.refused("the bucket is not open"))
            }
            let vBuckets = call.subjects.isEmpty ? nil : call.subjects.map(\.vBucket)
            let reports = service.dataPlane.reports(bucket: name, of: vBuckets)
            answer(ReportsAnswer(reports: reports).encoded)
        }
        handle(PeerKind.activate, ActivateCall.self, refused: DoneAnswer.refused) {
            service,
            call,
            name,
            answer in
            let bucket = service.sources.bucket(call.bucketUUID)
            let asked = call.subjects.compactMap { one -> CopyActivation? in
                if let expected = one.expected {
                    return CopyActivation(
                        one.vBucket,
                        one.fence,
                        reason: .promotion(expected: expected)
                    )
                }
                guard let final = bucket?[one.vBucket].expected else { return nil }
                return CopyActivation(
                    one.vBucket,
                    one.fence,
                    reason: .takeover(final: final.covered)
                )
            }
            let ready = service.dataPlane.activate(bucket: name, asked)
            answer(DoneAnswer(done: ready.map { DoneAnswer.Done(vBucket: $0) }).encoded)
        }
        handle(PeerKind.seal, VBucketsCall.self, refused: ReportsAnswer.refused) {
            $0.seal($1, bucket: $2, $3)
        }
        handle(PeerKind.handOver, VBucketsCall.self, refused: DoneAnswer.refused) {
            $0.handOver($1, bucket: $2, $3)
        }
    }

    func stop() {
        isStopped = true
        for wait in waiting { wait.work(false) }
        waiting = []
    }

    /// Entries were applied: runs the calls that waited for them.
    func applied(through index: UInt64) {
        guard waiting.contains(where: { $0.index <= index }) else { return }
        let due = waiting.filter { $0.index <= index }
        waiting.removeAll { $0.index <= index }
        for wait in due { wait.work(true) }
    }

    private func seal(
        _ call: VBucketsCall,
        bucket name: String,
        _ answer: @escaping PeerCalls.Answer
    ) {
        let reports = dataPlane.seal(bucket: name, call.subjects)
        keepSeals(of: Set(reports.map(\.vBucket)), call) { error in
            // The copy is stopped but not sealed on disk, so the leader must not count it.
            if let error { return answer(ReportsAnswer.refused(error.description)) }
            answer(ReportsAnswer(reports: reports).encoded)
        }
    }

    /// A drained copy never serves under this fence again, not even after a restart: the new owner
    /// has only the changes up to the drain, and this node may apply the takeover long after its
    /// restart.
    ///
    /// The only copy of a chain serves as soon as its node starts, even after a crash, so it is
    /// sealed on disk. A copy of a longer chain needs no seal: after a start it is dead, or its own
    /// record on disk has the end of its service.
    private func handOver(
        _ call: VBucketsCall,
        bucket name: String,
        _ answer: @escaping PeerCalls.Answer
    ) {
        dataPlane.handOver(bucket: name, call.subjects) { [lane] outcomes in
            let drained = outcomes.compactMap { vBucket, outcome in
                if case .drained(let seqno) = outcome {
                    DoneAnswer.Done(vBucket: vBucket, seqno: seqno)
                } else {
                    nil
                }
            }.sorted { $0.vBucket < $1.vBucket }
            lane.post { [weak self] in
                guard let self else { return }
                let bucket = sources.bucket(call.bucketUUID)
                let alone = drained.map(\.vBucket).filter { bucket?[$0].chain.count == 1 }
                keepSeals(of: Set(alone), call) { error in
                    if let error { return answer(DoneAnswer.refused(error.description)) }
                    answer(DoneAnswer(done: drained).encoded)
                }
            }
        }
    }

    /// Stores seals of these copies, which then never act under the call's fences again, and calls
    /// `done` once the seals are on disk.
    private func keepSeals(
        of vBuckets: Set<VBucketID>,
        _ call: VBucketsCall,
        _ done: @escaping @Sendable (ClusterError?) -> Void
    ) {
        let seals = call.subjects.filter { vBuckets.contains($0.vBucket) }
            .map { ControlSeal(vBucket: $0.vBucket, fence: $0.fence, term: call.term) }
        guard !seals.isEmpty else { return done(nil) }
        sources.keep([.seals(bucketUUID: call.bucketUUID, seals)]) { result in
            switch result {
            case .success: done(nil)
            case .failure(let error): done(error)
            }
        }
    }

    // MARK: Calls

    /// Carries out a call of the bucket with this name.
    private typealias Work<Subject: LeaderSubject> =
        @Sendable (
            OwnershipService, LeaderCall<Subject>, String, @escaping PeerCalls.Answer
        ) -> Void

    /// Handles calls of a kind: refuses invalid ones, waits for the caller's map, then runs `work`.
    private func handle<Subject: LeaderSubject>(
        _ kind: UInt16,
        _ type: LeaderCall<Subject>.Type,
        refused: @escaping @Sendable (String) -> [UInt8],
        work: @escaping Work<Subject>
    ) {
        calls.handleCalls(kind) { [weak self] _, bytes, answer in
            guard let call = type.init(message: bytes) else {
                return answer(refused("invalid call"))
            }
            self?.admit(call, answer, refused: refused, work: work)
        }
    }

    private func admit<Subject: LeaderSubject>(
        _ call: LeaderCall<Subject>,
        _ answer: @escaping PeerCalls.Answer,
        refused: @escaping @Sendable (String) -> [UInt8],
        work: @escaping Work<Subject>
    ) {
        guard call.term >= newestTerm, !isStopped else {
            return answer(refused("a leader of the later term \(newestTerm) is known"))
        }
        newestTerm = call.term
        whenApplied(call.index) { [weak self] isApplied in
            guard isApplied, let self, !isStopped else {
                return answer(refused("the node has not applied the caller's log yet"))
            }
            guard let bucket = sources.bucket(call.bucketUUID) else {
                return answer(refused("the bucket does not exist"))
            }
            let count = bucket.placements.count
            guard call.subjects.allSatisfy({ Int($0.vBucket.number) < count }) else {
                return answer(refused("the bucket has \(count) vBuckets"))
            }
            work(self, call, bucket.settings.name, answer)
        }
    }

    private func whenApplied(_ index: UInt64, _ work: @escaping (Bool) -> Void) {
        if sources.applied() >= index { return work(true) }
        waiting.append((index, work))
        lane.post(after: Self.timeoutNanoseconds) { [weak self] in
            guard let self else { return }
            // Entries arrive in milliseconds or, on a cut-off node, not at all.
            let behind = waiting.filter { $0.index == index }
            waiting.removeAll { $0.index == index }
            for wait in behind { wait.work(false) }
        }
    }
}

extension ReportsAnswer {
    static func refused(_ reason: String) -> [UInt8] { ReportsAnswer(refusal: reason).encoded }
}

extension DoneAnswer {
    static func refused(_ reason: String) -> [UInt8] { DoneAnswer(refusal: reason).encoded }
}
