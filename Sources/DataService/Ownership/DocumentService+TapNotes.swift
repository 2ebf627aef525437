internal import Engine
internal import Seams
internal import Vocabulary

/// Notes of copies that came to this node, for TAP clients without history that connect soon.
///
/// The former node closes the connection of such a client when the move begins, and the client
/// connects here later, possibly after the takeover. No node then has a position of this client.
///
/// - A note is made before the copy accepts a write, so that a client that finds later changes finds
///   the note too.
/// - A new bucket's copies and those that a clean start loads are active without an activation, and
///   have no notes.
extension DocumentService {
    /// Notes copies that a map created here: their first change is the earliest that is missing.
    ///
    /// The vBucket may be handed over before the client connects again, and then the former node sends
    /// no changes from between. So the position at the activation is too late.
    func noteCreated(_ vBuckets: [VBucketID], of bucket: OpenBucket) {
        guard !vBuckets.isEmpty else { return }
        let positions = vBuckets.map { ($0, TapPositions.Position.beginning) }
        bucket.tapPositions.note(
            Dictionary(positions) { $1 },
            at: environment.time.monotonicNanoseconds()
        )
    }

    /// Notes copies that are about to be activated after a takeover or a promotion.
    ///
    /// A refused activation leaves its note: changes are then repeated. A resumed copy was active here
    /// before.
    func noteActivated(_ activations: [CopyActivation], of bucket: OpenBucket) {
        var positions: [VBucketID: TapPositions.Position] = [:]
        for activation in activations {
            if case .resumption = activation.reason { continue }
            let position = bucket.engine[activation.vBucket.number]?.withCore { core in
                let isDue =
                    core.state == .pending && core.ownership.fence == activation.fence
                    && core.isLoaded
                return isDue
                    ? TapPositions.Position(uuid: core.uuid, seqno: core.coveredSeqno) : nil
            }
            if let position { positions[activation.vBucket] = position }
        }
        guard !positions.isEmpty else { return }
        bucket.tapPositions.note(positions, at: environment.time.monotonicNanoseconds())
    }
}
