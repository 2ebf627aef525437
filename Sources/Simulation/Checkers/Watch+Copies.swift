internal import DataService
internal import Engine
internal import Orchestration
internal import Vocabulary
internal import Wire

/// Checks that copies have what other components assume.
///
/// - Acknowledged: an active copy counts no replica beyond the seqno that the replica covers:
///   inside a snapshot a replica may lack changes.
/// - History: the history that a promotion begins starts at the seqno that the promoted copy
///   reported as covered.
extension Watch {
    /// A promotion whose history has not begun yet.
    struct PendingPromotion {
        let fence: UInt64
        let covered: Seqno
    }

    func checkCopies(_ view: ClusterView) {
        for bucket in view.state.buckets {
            let copies = view.copies(of: bucket.settings.name)
            var pending = promotions[bucket.settings.uuid] ?? [:]
            let index = losses.index(of: bucket.settings.uuid)
            for (number, placement) in bucket.placements.enumerated() {
                // A restored vBucket is promoted later, after its copies report what they cover.
                if !placement.isConfirmed, !placement.isRestored,
                    let expected = placement.expected
                {
                    pending[number] = PendingPromotion(
                        fence: placement.fence,
                        covered: expected.covered
                    )
                    losses.recordPromotion(
                        index,
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
                    recordUnobservedPromotion(
                        of: active,
                        vBucket,
                        at: index,
                        fence: placement.fence
                    )
                }
                checkAcknowledgements(
                    of: owner.bucket,
                    active,
                    placement: placement,
                    vBucket: vBucket,
                    bucket: bucket,
                    copies: copies
                )
                guard let promotion = pending[number] else { continue }
                guard promotion.fence == placement.fence else {
                    pending[number] = nil
                    continue
                }
                // The first history of this fence: a single copy begins another one after a crash.
                let log = active.withCore { $0.failoverLog.entries }
                guard let entry = log.last(where: { $0.fence == placement.fence }) else { continue }
                pending[number] = nil
                if entry.seqno > promotion.covered {
                    verifier.reportFlaw(
                        "History: \(bucket.settings.name) \(vBucket) begins at "
                            + "\(entry.seqno.value), but covered only \(promotion.covered.value)"
                    )
                }
            }
            promotions[bucket.settings.uuid] = pending.isEmpty ? nil : pending
        }
    }

    /// Records a promotion that was decided and confirmed between two inspections, from the
    /// failover log.
    private func recordUnobservedPromotion(
        of active: VBucket,
        _ vBucket: VBucketID,
        at index: Int,
        fence: UInt64
    ) {
        guard losses.isNew(index, vBucket, fence: fence),
            let entry = active.withCore({ $0.failoverLog.entries.last { $0.fence == fence } })
        else { return }
        losses.recordPromotion(index, vBucket, fence: fence, covered: entry.seqno)
    }

    private func checkAcknowledgements(
        of owner: OpenBucket,
        _ active: VBucket,
        placement: VBucketPlacement,
        vBucket: VBucketID,
        bucket: BucketRecord,
        copies: [ClusterView.Copies]
    ) {
        guard active.withCore({ $0.feeds(placement.fence) }) else { return }
        for (node, acknowledgement) in owner.acknowledgements(of: vBucket)
        where acknowledgement.fence == placement.fence {
            guard let other = copies.on(node)?[Int(vBucket.number)] else { continue }
            let standing: (Seqno, Seqno)? = other.withCore { core in
                core.follows(acknowledgement.fence) ? (core.coveredSeqno, core.highSeqno) : nil
            }
            // A replica with a lower high seqno was reset, which the next stream reports.
            guard let (covered, high) = standing, covered < acknowledgement.covered,
                high >= acknowledgement.covered
            else {
                continue
            }
            verifier.reportFlaw(
                "Acknowledged: \(bucket.settings.name) \(vBucket) counts node \(node) up to "
                    + "\(acknowledgement.covered.value), but it covers only \(covered.value)"
            )
        }
    }
}
