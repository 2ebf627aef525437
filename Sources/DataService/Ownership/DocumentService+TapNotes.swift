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
/// - A new bucket's copies and those that this node has alone at a start are active without an
///   activation, and have no notes. A resumed copy has none either.
extension DocumentService {
    /// Notes copies that a map created here: their first change is the earliest that is missing.
    ///
    /// The vBucket may be handed over before the client connects again, and then the former node does
    /// not send the changes made between the close and the hand-over. So the position at the activation
    /// is too late.
    func recordCreated(_ vBuckets: [VBucketID], of bucket: OpenBucket) {
        guard !vBuckets.isEmpty else { return }
        let positions = vBuckets.map { ($0, TapPositions.Position.beginning) }
        bucket.tapPositions.note(
            Dictionary(positions) { $1 },
            at: environment.time.monotonicNanoseconds()
        )
    }

    /// Notes a copy that is about to be activated after a takeover or a promotion, under its lock.
    ///
    /// A refused activation leaves its note: changes are then repeated. A resumed copy was active here
    /// before.
    func recordActivated(
        _ activation: CopyActivation,
        _ core: borrowing VBucketCore,
        of bucket: OpenBucket
    ) {
        if case .resumption = activation.reason { return }
        guard core.state == .pending, core.ownership.fence == activation.fence, core.isLoaded
        else { return }
        let position = TapPositions.Position(uuid: core.uuid, seqno: core.coveredSeqno)
        bucket.tapPositions.note([core.id: position], at: environment.time.monotonicNanoseconds())
    }
}
