package import Vocabulary

/// The order's memory, in plain numbers and bytes: what they mean is known one floor up.
package struct ControlHardState: Hashable, Sendable {
    package var term: UInt64
    /// 0 for nobody.
    package var vote: UInt16
    package var commit: UInt64

    package init(term: UInt64 = 0, vote: UInt16 = 0, commit: UInt64 = 0) {
        self.term = term
        self.vote = vote
        self.commit = commit
    }
}

/// A place in the log.
package struct ControlPosition: Hashable, Sendable {
    package var term: UInt64
    package var index: UInt64

    package init(term: UInt64, index: UInt64) {
        self.term = term
        self.index = index
    }
}

package struct ControlEntry: Hashable, Sendable {
    package var position: ControlPosition
    package var kind: UInt8
    package var bytes: [UInt8]

    package init(position: ControlPosition, kind: UInt8, bytes: [UInt8]) {
        self.position = position
        self.kind = kind
        self.bytes = bytes
    }
}

/// What a snapshot stands for; its state is kept beside it, in chunks.
package struct ControlSnapshotMark: Hashable, Sendable {
    package var position: ControlPosition
    /// Who voted there.
    package var configuration: [UInt8]

    package init(position: ControlPosition, configuration: [UInt8]) {
        self.position = position
        self.configuration = configuration
    }
}

package struct ControlSnapshot: Hashable, Sendable {
    package var mark: ControlSnapshotMark
    package var state: [UInt8]

    package init(mark: ControlSnapshotMark, state: [UInt8]) {
        self.mark = mark
        self.state = state
    }
}

/// A promise to take nothing more from the active of this fence.
package struct ControlSeal: Hashable, Sendable {
    package var vBucket: VBucketID
    package var fence: UInt64
    /// The term of the leader that asked.
    package var term: UInt64

    package init(vBucket: VBucketID, fence: UInt64, term: UInt64) {
        self.vBucket = vBucket
        self.fence = fence
        self.term = term
    }
}

/// One thing to keep; several are kept together or not at all.
///
/// All of them can be repeated without harm: after an error nobody knows whether a commit happened.
package enum ControlChange: Sendable {
    case hardState(ControlHardState)
    /// Replaces everything from the first entry's index on.
    case append([ControlEntry])
    /// Removes the log up to here, itself included; the log then begins behind it.
    case prune(ControlPosition)
    /// Replaces the snapshot by this node's own; the log stays.
    case snapshot(ControlSnapshot)
    /// Begins to receive a snapshot, and forgets any other that was half received.
    case stage(ControlSnapshotMark)
    /// The next bytes of it.
    case stageChunk(number: UInt64, bytes: [UInt8])
    /// What was received is whole: it replaces log and snapshot.
    case installStaged
    case dropStaged
    case seals(bucketUUID: String, [ControlSeal])
    /// Forgets the seals of a bucket that is gone.
    case dropSeals(bucketUUID: String)
    /// Nil forgets it.
    case fact(name: String, [UInt8]?)
}

/// Everything a member needs to begin again, but for the snapshot's state.
package struct ControlContents: Sendable {
    package var hardState: ControlHardState
    package var snapshot: ControlSnapshotMark
    /// The entry before the first of `entries`.
    package var base: ControlPosition
    package var entries: [ControlEntry]
}
