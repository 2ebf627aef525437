internal import Vocabulary

/// The progress of removing the nodes that a new epoch left behind, as this leader sees it.
package struct EpochProgress: Sendable {
    var begunAt: UInt64?
    var nextRoundAt: UInt64 = 0
    var obstacles: [FailoverBlocker] = []
    var changesLost: UInt64 = 0
    /// A sentence for the requesting operator; empty until the removal is done.
    package internal(set) var sentence = ""
}

/// After a new epoch began: remaining copies replace the active copies of nodes left behind, with
/// the operator's consent in place of the missing seals; then those nodes are removed.
extension Reconciler {
    /// How long remaining nodes may take to join the epoch before their copies are ignored.
    private static let epochTimeoutNanoseconds: UInt64 = 10_000_000_000
    private static let epochPauseNanoseconds: UInt64 = 200_000_000

    mutating func finishEpoch(_ view: LeaderView) {
        let gone = view.state.leftBehind
        guard !gone.isEmpty else {
            epoch.begunAt = nil
            return
        }
        guard view.now >= epoch.nextRoundAt, begin(.epoch) else { return }
        epoch.nextRoundAt = view.now + Self.epochPauseNanoseconds
        if epoch.begunAt == nil {
            let next = epoch.nextRoundAt
            epoch = EpochProgress()
            epoch.nextRoundAt = next
            epoch.begunAt = view.now
        }
        let names = view.state.buckets.map(\.settings.name)
        inTurn(names[...], view) { reconciler, name, view, then in
            reconciler.takeOver(from: gone, ofBucket: name, view) { then(&$0, true, $1) }
        } then: { reconciler, _, view in
            reconciler.removeLeftBehind(gone, view)
        }
    }

    /// Promotes the best remaining copies of vBuckets whose active copy was left behind.
    private mutating func takeOver(
        from gone: [NodeNumber],
        ofBucket name: String,
        _ view: LeaderView,
        then: @escaping Continuation
    ) {
        guard let bucket = view.state.bucket(named: name) else { return then(&self, view) }
        let orphans = bucket.numberedPlacements.compactMap { vBucket, placement in
            placement.chain.first.map(gone.contains) ?? false ? vBucket : nil
        }
        guard !orphans.isEmpty else { return then(&self, view) }
        let questions = view.questions(orphans, of: bucket)
        // Copies on nodes that were failed over before are not waited for either.
        let givenUp = view.failedOver.sorted()
        sealAndChoose(questions, of: bucket, without: gone, givenUp: givenUp, view) {
            reconciler,
            round,
            view in
            // A node that is only late may have the better copy.
            let begunAt = reconciler.epoch.begunAt ?? view.now
            let mayStillAnswer = view.now - begunAt < Self.epochTimeoutNanoseconds
            guard round.silent.isEmpty || !mayStillAnswer else { return then(&reconciler, view) }
            reconciler.epoch.obstacles += round.decided.obstacles
            reconciler.epoch.changesLost += round.decided.changesLost
            reconciler.promote(round, deposing: gone, view) { then(&$0, $2) }
        }
    }

    private mutating func removeLeftBehind(_ gone: [NodeNumber], _ view: LeaderView) {
        guard gone.allSatisfy({ !view.state.holdsData($0) }) else { return end(.epoch) }
        // The sentence must be set before the removal: the requester reads it right after that.
        epoch.sentence = sentence(view.names(gone), view)
        inTurn(gone[...], view) { reconciler, node, view, then in
            reconciler.propose(.removeNode(node)) { reconciler, _, view in
                reconciler.actions.append(.forgetBeats(of: node))
                then(&reconciler, true, view)
            }
        } then: { reconciler, _, view in
            reconciler.end(.epoch)
            guard view.state.leftBehind.isEmpty else { return }
            reconciler.log(.warning, .node, text: reconciler.epoch.sentence)
        }
    }

    private func sentence(_ names: String, _ view: LeaderView) -> String {
        var parts = [
            "A new epoch of the cluster (\(view.state.revEpoch)) began without \(names), by an "
                + "operator's order. They cannot return to it; add them as new nodes."
        ]
        for bucket in view.state.buckets {
            let lost = bucket.placements.indices.filter { bucket.placements[$0].chain.isEmpty }
            guard !lost.isEmpty else { continue }
            parts.append(
                UnsafeFailoverImpact.lost(
                    lost.map { VBucketID(UInt16($0)) },
                    ofBucket: bucket.settings.name
                )
            )
        }
        parts += view.sentences(epoch.obstacles.filter(\.isAboutLateCopies))
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
