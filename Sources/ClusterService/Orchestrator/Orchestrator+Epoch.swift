internal import Orchestration
internal import Seams
internal import Vocabulary

/// The progress of removing the nodes that a new epoch left behind, as this leader sees it.
struct EpochProgress: Sendable {
    var begunAt: UInt64?
    var nextRoundAt: UInt64 = 0
    var obstacles: [FailoverBlocker] = []
    var changesLost: UInt64 = 0
    /// A sentence for the requesting operator; empty until the removal is done.
    var sentence = ""
}

/// After a new epoch began: remaining copies replace the active copies of nodes left behind, with
/// the operator's consent in place of the missing seals; then those nodes are removed.
extension Orchestrator {
    /// How long remaining nodes may take to join the epoch before their copies are ignored.
    private static var timeoutNanoseconds: UInt64 { 10_000_000_000 }
    private static var pauseNanoseconds: UInt64 { 200_000_000 }

    func finishEpoch() async {
        let gone = state.leftBehind
        guard !gone.isEmpty else {
            epoch.begunAt = nil
            return
        }
        guard now >= epoch.nextRoundAt else { return }
        epoch.nextRoundAt = now + Self.pauseNanoseconds
        if epoch.begunAt == nil {
            epoch = EpochProgress()
            epoch.begunAt = now
        }
        for bucket in state.buckets { await takeOver(from: gone, bucket) }
        let isOver = gone.allSatisfy { !state.holdsData($0) }
        guard isLeading, isOver else { return }
        // The sentence must be set before the removal: the requester reads it right after that.
        epoch.sentence = sentence(gone.map { name($0) }.joined(separator: ", "))
        for node in gone {
            await propose(.removeNode(node))
            member.beats.forget(node)
        }
        guard state.leftBehind.isEmpty else { return }
        member.logEvent(.warning, .node, epoch.sentence)
    }

    /// Promotes the best remaining copies of vBuckets whose active copy was left behind.
    private func takeOver(from gone: [NodeNumber], _ bucket: BucketRecord) async {
        let orphans = bucket.placements.indices.map { VBucketID(UInt16($0)) }.filter { vBucket in
            bucket[vBucket].chain.first.map(gone.contains) ?? false
        }
        guard !orphans.isEmpty else { return }
        // Copies on nodes that were failed over before are not waited for either.
        let givenUp = failedOver.sorted()
        let round = await sealAndChoose(orphans, of: bucket, without: gone, givenUp: givenUp)
        // A node that is only late may have the better copy.
        let mayStillAnswer = now - (epoch.begunAt ?? now) < Self.timeoutNanoseconds
        guard round.silent.isEmpty || !mayStillAnswer else { return }
        epoch.obstacles += round.decided.obstacles
        epoch.changesLost += round.decided.changesLost
        await promote(round, deposing: gone)
    }

    private func sentence(_ names: String) -> String {
        var parts = [
            "A new epoch of the cluster (\(state.revEpoch)) began without \(names), by an "
                + "operator's order. They cannot return to it; add them as new nodes."
        ]
        for bucket in state.buckets {
            let lost = bucket.placements.indices.filter { bucket.placements[$0].chain.isEmpty }
            guard !lost.isEmpty else { continue }
            parts.append(
                UnsafeFailoverImpact.lost(
                    lost.map { VBucketID(UInt16($0)) },
                    ofBucket: bucket.settings.name
                )
            )
        }
        parts += sentences(epoch.obstacles.filter(\.isAboutLateCopies))
        if epoch.changesLost > 0 {
            parts.append("At least \(Words.count(Int(epoch.changesLost), "change")) may be lost.")
        }
        return parts.joined(separator: " ")
    }
}

extension FailoverBlocker {
    /// Whether the blocker is a late copy: vBuckets without a copy are reported from the map.
    fileprivate var isAboutLateCopies: Bool {
        if case .wouldLoseDurable = self { true } else { false }
    }
}
