internal import Bytes
internal import Orchestration
internal import Seams
internal import Vocabulary

/// What came of the nodes that a new epoch left behind, as far as this leader saw it.
struct EpochProgress: Sendable {
    var begunAt: UInt64?
    var lookAgainAt: UInt64 = 0
    var obstacles: [WhyNot] = []
    var changesLost: UInt64 = 0
    /// For whoever asked for it; empty until it is over.
    var sentence = ""
}

/// After a new epoch began: the vBuckets of those left behind go to copies that are left, with the
/// operator's consent in place of the seals that are missing; then nobody remembers them.
extension Orchestrator {
    /// How long those that are left may take to come over, before it goes on without their copies.
    private static var patience: UInt64 { 10_000_000_000 }
    private static var pause: UInt64 { 200_000_000 }

    func finishEpoch() async {
        let gone = state.leftBehind
        guard !gone.isEmpty else {
            epoch.begunAt = nil
            return
        }
        guard now >= epoch.lookAgainAt else { return }
        epoch.lookAgainAt = now + Self.pause
        if epoch.begunAt == nil {
            epoch = EpochProgress()
            epoch.begunAt = now
        }
        for bucket in state.buckets { await takeOver(from: gone, bucket) }
        let isOver = gone.allSatisfy { !state.holdsData($0) }
        guard isLeading, isOver else { return }
        // Whoever gave the order asks as soon as they are gone.
        epoch.sentence = sentence(gone.map { name($0) }.joined(separator: ", "))
        for node in gone {
            await propose(.removeNode(node))
            member.beats.forget(node)
        }
        guard state.leftBehind.isEmpty else { return }
        member.tell(.warning, .node, epoch.sentence)
    }

    /// Has the best copies that are left become active where the active one was left behind.
    private func takeOver(from gone: [NodeNumber], _ bucket: BucketRecord) async {
        let orphans = bucket.placements.indices.map { VBucketID(UInt16($0)) }.filter { vBucket in
            bucket[vBucket].chain.first.map(gone.contains) ?? false
        }
        guard !orphans.isEmpty else { return }
        // Who was failed over before has nothing that anybody waits for, either.
        let givenUp = failedOver.sorted()
        let round = await sealAndChoose(orphans, of: bucket, without: gone, givenUp: givenUp)
        // A copy that is only late may be the better one.
        let isPatient = now - (epoch.begunAt ?? now) < Self.patience
        guard round.silent.isEmpty || !isPatient else { return }
        epoch.obstacles += round.decided.obstacles
        epoch.changesLost += round.decided.changesLost
        await promote(round, deposing: gone)
    }

    private func sentence(_ names: String) -> String {
        var parts = [
            "A new epoch of the cluster (\(state.revEpoch)) began without \(names), by an "
                + "operator's order. They do not come back into it; they can be added anew."
        ]
        for bucket in state.buckets {
            let lost = bucket.placements.indices.filter { bucket.placements[$0].chain.isEmpty }
            guard !lost.isEmpty else { continue }
            parts.append(
                EpochStake.lost(lost.map { VBucketID(UInt16($0)) }, ofBucket: bucket.settings.name)
            )
        }
        parts += sentences(epoch.obstacles.filter(\.isAboutLateCopies))
        if epoch.changesLost > 0 {
            parts.append("At least \(Words.count(Int(epoch.changesLost), "change")) may be lost.")
        }
        return parts.joined(separator: " ")
    }
}

extension WhyNot {
    /// Not of vBuckets without a copy: what is left of those, the map says better.
    fileprivate var isAboutLateCopies: Bool {
        if case .wouldLoseDurable = self { true } else { false }
    }
}
