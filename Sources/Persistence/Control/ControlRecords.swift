package import Vocabulary

/// Raft's hard state as plain numbers; the consensus module knows their meaning.
package struct ControlHardState: Hashable, Sendable {
    package var term: UInt64
    /// The node voted for in `term`; 0 for none.
    package var vote: UInt16
    package var commit: UInt64

    package init(term: UInt64 = 0, vote: UInt16 = 0, commit: UInt64 = 0) {
        self.term = term
        self.vote = vote
        self.commit = commit
    }
}

/// The position of an entry in the log.
package struct ControlPosition: Hashable, Sendable {
    package var term: UInt64
    package var index: UInt64

    package init(term: UInt64, index: UInt64) {
        self.term = term
        self.index = index
    }
}

/// One log entry as bytes.
package struct ControlEntry: Hashable, Sendable {
    package var position: ControlPosition
    /// The entry's type, opaque to this module.
    package var kind: UInt8
    package var bytes: [UInt8]

    package init(position: ControlPosition, kind: UInt8, bytes: [UInt8]) {
        self.position = position
        self.kind = kind
        self.bytes = bytes
    }
}

/// The head of a snapshot; its state is stored separately, in chunks.
package struct ControlSnapshotMark: Hashable, Sendable {
    /// The last entry that the snapshot contains.
    package var position: ControlPosition
    /// The encoded voter configuration at `position`.
    package var configuration: [UInt8]

    package init(position: ControlPosition, configuration: [UInt8]) {
        self.position = position
        self.configuration = configuration
    }
}

/// A complete snapshot: its head and its encoded state.
package struct ControlSnapshot: Hashable, Sendable {
    package var mark: ControlSnapshotMark
    package var state: [UInt8]

    package init(mark: ControlSnapshotMark, state: [UInt8]) {
        self.mark = mark
        self.state = state
    }
}

/// A seal (phase-1 promise): this copy accepts no more changes from the active copy of this fence.
package struct ControlSeal: Hashable, Sendable {
    package var vBucket: VBucketID
    package var fence: UInt64
    /// The term of the leader that requested the seal.
    package var term: UInt64

    package init(vBucket: VBucketID, fence: UInt64, term: UInt64) {
        self.vBucket = vBucket
        self.fence = fence
        self.term = term
    }
}

/// One change of the control file; the changes of a commit are stored atomically.
///
/// Every change is idempotent: after an error it is unknown whether the commit happened.
package enum ControlChange: Sendable {
    case hardState(ControlHardState)
    /// Replaces all log entries from the first entry's index on.
    case append([ControlEntry])
    /// Removes all log entries up to and including this position.
    case prune(ControlPosition)
    /// Replaces the snapshot by one that this node made; the log stays.
    case snapshot(ControlSnapshot)
    /// Starts to receive a snapshot; discards an incomplete earlier one.
    case stage(ControlSnapshotMark)
    /// The next chunk of the staged snapshot, numbered from 0.
    case stageChunk(number: UInt64, bytes: [UInt8])
    /// The staged snapshot is complete: it replaces the log and the current snapshot.
    case installStaged
    /// Discards the staged snapshot, if any.
    case dropStaged
    /// Adds seals; a vBucket's earlier seal is replaced.
    case seals(bucketUUID: String, [ControlSeal])
    /// Removes all seals of a deleted bucket.
    case dropSeals(bucketUUID: String)
    /// Stores a named value; nil removes it.
    case fact(name: String, [UInt8]?)
}

/// Everything that a member reads at start, except for the snapshot's state.
package struct ControlContents: Sendable {
    package var hardState: ControlHardState
    package var snapshot: ControlSnapshotMark
    /// The position before the first of `entries`.
    package var base: ControlPosition
    package var entries: [ControlEntry]
}
