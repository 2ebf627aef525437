internal import Orchestration
internal import Vocabulary

/// What keeps a rebalance from going on, in words, and for how long it waits for that.
extension Orchestrator {
    /// What has to be over before a vBucket can be moved: a new active copy that was chosen is not
    /// confirmed yet, or has not on disk yet what another one handed over; or nobody could be chosen
    /// instead of one that was failed over.
    func obstacle(
        in bucket: BucketRecord
    ) -> (sentence: String, patienceMilliseconds: UInt64)? {
        let failedOver = failedOver
        let patience = Limits.moveStalledMilliseconds
        for (number, placement) in bucket.placements.enumerated() {
            guard let owner = placement.chain.first else { continue }
            let place = "vBucket \(number) of the bucket “\(bucket.settings.name)”"
            let asked = [owner] + placement.confirmedChain.nodes
            let gone = asked.first(where: failedOver.contains)
            if let gone,
                abandoned[bucket.settings.name]?.contains(VBucketID(UInt16(number))) == true
            {
                let sentence =
                    "\(name(gone)) was failed over with \(place), and nobody else has anything of"
                    + " it. Recover it with “delta”, or rebalance without it."
                return (sentence, Limits.failedOverWaitMilliseconds)
            }
            if failedOver.contains(owner) {
                let sentence =
                    "\(name(owner)) was failed over with \(place), and somebody else who may have"
                    + " more of it than others does not answer."
                return (sentence, patience)
            }
            guard !placement.isJoint else { continue }
            if !placement.isConfirmed {
                return (
                    "\(name(owner)) was chosen to serve \(place) and is not ready yet.", patience
                )
            }
            if let former = placement.former {
                let sentence =
                    "\(name(owner)) has yet to write to disk what \(name(former)) handed over of"
                    + " \(place)."
                return (sentence, patience)
            }
        }
        return nil
    }
}
