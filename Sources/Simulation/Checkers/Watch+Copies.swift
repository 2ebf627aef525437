internal import DataService
internal import Engine
internal import Orchestration
internal import Server
internal import Vocabulary
internal import Wire

/// Copies of which more is believed than they have.
///
/// - Acknowledged: an active copy counts nobody further than that one covers: inside a snapshot a
///   copy may lack what another one was told of.
/// - History: what begins with a promotion begins at what the promoted copy was known to cover.
extension Watch {
    /// A promotion that is not over: what it was made with is looked at once it has begun.
    struct Begun {
        let fence: UInt64
        let covered: Seqno
    }

    func lookAtCopies(_ sight: Sight) {
        for bucket in sight.state.buckets {
            let copies = sight.copies(of: bucket.settings.name)
            var begun = promotions[bucket.settings.uuid] ?? [:]
            let place = losses.place(of: bucket.settings.uuid)
            for (number, placement) in bucket.placements.enumerated() {
                // What was restored is promoted later: nobody was asked what he covers yet.
                if !placement.isConfirmed, !placement.isRestored,
                    let expected = placement.expected
                {
                    begun[number] = Begun(fence: placement.fence, covered: expected.covered)
                    losses.promoted(
                        place,
                        VBucketID(UInt16(number)),
                        fence: placement.fence,
                        covered: expected.covered
                    )
                }
                guard let first = placement.chain.first, let owner = copies.on(first),
                    let active = owner[number]
                else { continue }
                let vBucket = VBucketID(UInt16(number))
                if placement.isConfirmed {
                    lookAtBeginning(of: active, vBucket, place, placement.fence)
                }
                lookAtWords(of: owner.bucket, active, placement, vBucket, bucket, copies)
                guard let promotion = begun[number] else { continue }
                guard promotion.fence == placement.fence else {
                    begun[number] = nil
                    continue
                }
                // The first of this fence: a copy that is alone and crashes begins another one.
                let log = active.withCore { $0.failoverLog.entries }
                guard let entry = log.last(where: { $0.fence == placement.fence }) else { continue }
                begun[number] = nil
                if entry.seqno > promotion.covered {
                    judge.accuse(
                        "History: \(bucket.settings.name) \(vBucket) begins anew at "
                            + "\(entry.seqno.value), and \(promotion.covered.value) were covered"
                    )
                }
            }
            promotions[bucket.settings.uuid] = begun.isEmpty ? nil : begun
        }
    }

    /// A promotion may be decided and confirmed between two looks: the history that began says so.
    private func lookAtBeginning(
        of active: VBucket,
        _ vBucket: VBucketID,
        _ place: Int,
        _ fence: UInt64
    ) {
        guard losses.isNew(place, vBucket, fence: fence),
            let entry = active.withCore({ $0.failoverLog.entries.last { $0.fence == fence } })
        else { return }
        losses.promoted(place, vBucket, fence: fence, covered: entry.seqno)
    }

    private func lookAtWords(
        of owner: OpenBucket,
        _ active: VBucket,
        _ placement: VBucketPlacement,
        _ vBucket: VBucketID,
        _ bucket: BucketRecord,
        _ copies: [Sight.Copies]
    ) {
        guard active.withCore({ $0.feeds(placement.fence) }) else { return }
        for (node, word) in owner.acknowledgements(of: vBucket)
        where word.fence == placement.fence {
            guard let other = copies.on(node)?[Int(vBucket.number)] else { continue }
            let standing: (Seqno, Seqno)? = other.withCore { core in
                core.follows(word.fence) ? (core.coveredSeqno, core.highSeqno) : nil
            }
            // Who has less than it said began anew, and the next stream tells.
            guard let (covered, high) = standing, covered < word.covered, high >= word.covered
            else {
                continue
            }
            judge.accuse(
                "Acknowledged: \(bucket.settings.name) \(vBucket) counts node \(node) as far as "
                    + "\(word.covered.value), which covers \(covered.value) only"
            )
        }
    }
}
