internal import Bytes
package import Consensus
package import Persistence
package import Vocabulary

/// Converts between Raft's types and those of the control store.
enum RaftStorage {
    static func changes(_ write: StorageWrite) -> [ControlChange] {
        var changes: [ControlChange] = []
        if write.snapshot != nil { changes.append(.installStaged) }
        if !write.entries.isEmpty { changes.append(.append(write.entries.map(entry))) }
        if let state = write.hardState {
            changes.append(
                .hardState(
                    ControlHardState(term: state.term, vote: state.vote, commit: state.commit)
                )
            )
        }
        return changes
    }

    static func mark(_ description: SnapshotDescription) -> ControlSnapshotMark {
        ControlSnapshotMark(
            position: position(description.position),
            configuration: bytes(description.configuration)
        )
    }

    static func position(_ position: LogPosition) -> ControlPosition {
        ControlPosition(term: position.term, index: position.index)
    }

    /// The state with which a member restarts; nil if an entry cannot be decoded.
    static func restored(_ contents: ControlContents) -> RestoredState? {
        guard let snapshot = description(contents.snapshot) else { return nil }
        var entries: [LogEntry] = []
        for stored in contents.entries {
            guard let entry = entry(stored) else { return nil }
            entries.append(entry)
        }
        let state = contents.hardState
        var restored = RestoredState(snapshot: snapshot)
        restored.hardState = HardState(term: state.term, vote: state.vote, commit: state.commit)
        restored.base = LogPosition(term: contents.base.term, index: contents.base.index)
        restored.entries = entries
        return restored
    }

    static func description(_ mark: ControlSnapshotMark) -> SnapshotDescription? {
        guard let configuration = configuration(mark.configuration) else { return nil }
        return SnapshotDescription(
            position: LogPosition(term: mark.position.term, index: mark.position.index),
            configuration: configuration
        )
    }

    private static func entry(_ entry: LogEntry) -> ControlEntry {
        let (kind, bytes): (UInt8, [UInt8]) =
            switch entry.payload {
            case .empty: (0, [])
            case .command(let bytes): (1, bytes)
            case .configuration(let configuration): (2, Self.bytes(configuration))
            }
        let place = ControlPosition(term: entry.term, index: entry.index)
        return ControlEntry(position: place, kind: kind, bytes: bytes)
    }

    private static func entry(_ stored: ControlEntry) -> LogEntry? {
        let payload: LogEntry.Payload
        switch stored.kind {
        case 0: payload = .empty
        case 1: payload = .command(stored.bytes)
        case 2:
            guard let configuration = configuration(stored.bytes) else { return nil }
            payload = .configuration(configuration)
        default: return nil
        }
        let position = stored.position
        return LogEntry(term: position.term, index: position.index, payload: payload)
    }

    /// Encodes a configuration, as part of an otherwise empty entry.
    private static func bytes(_ configuration: VoterConfiguration) -> [UInt8] {
        LogEntry(term: 0, index: 0, payload: .configuration(configuration)).encoded
    }

    private static func configuration(_ bytes: [UInt8]) -> VoterConfiguration? {
        guard let entry = try? LogEntry(decoding: bytes),
            case .configuration(let configuration) = entry.payload
        else { return nil }
        return configuration
    }
}

/// The first contents of a member's store.
package enum RaftBeginning {
    /// Founds a new group with this node as the only voter and the given state.
    ///
    /// - Throws: `StorageError` if it cannot be written; the store is unchanged then.
    package static func found(
        _ store: ControlStore,
        node: NodeNumber,
        state: [UInt8],
        facts: [(name: String, bytes: [UInt8]?)] = []
    ) throws(StorageError) {
        let voters = VoterConfiguration(voters: [node])
        try begin(store, at: .zero, voters, state: state, facts: facts, keepsSeals: false)
    }

    /// Begins with the history that ends at `position`; every node of a new epoch writes the same one.
    ///
    /// In a new epoch seals stay: the node that asked for them may be in it.
    ///
    /// - Throws: `StorageError` if it cannot be written; the store is unchanged then.
    package static func begin(
        _ store: ControlStore,
        at position: LogPosition,
        _ configuration: VoterConfiguration,
        state: [UInt8],
        facts: [(name: String, bytes: [UInt8]?)],
        keepsSeals: Bool
    ) throws(StorageError) {
        let description = SnapshotDescription(position: position, configuration: configuration)
        try store.begin(
            with: ControlSnapshot(mark: RaftStorage.mark(description), state: state),
            hardState: ControlHardState(term: position.term, vote: 0, commit: position.index),
            facts: facts,
            keepsSeals: keepsSeals
        )
    }

    /// Joins after an invitation: without entries and without a vote, until a leader sends its log.
    ///
    /// - Throws: `StorageError` if it cannot be written; the store is unchanged then.
    package static func join(
        _ store: ControlStore,
        emptyState: [UInt8],
        facts: [(name: String, bytes: [UInt8]?)] = []
    ) throws(StorageError) {
        let noVoters = VoterConfiguration(voters: [])
        try begin(store, at: .zero, noVoters, state: emptyState, facts: facts, keepsSeals: false)
    }
}
