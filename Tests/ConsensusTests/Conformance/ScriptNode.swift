import Consensus
import Vocabulary

/// The state of a member, as a script's record shows it or as Divan has it; nil where unknown.
struct Facts: Equatable {
    var term: Term?
    var vote: UInt16?
    var commit: LogIndex?
    var role: String?
    /// 0 for none.
    var leader: UInt16?
    /// The applied configuration.
    var configuration: String?
}

/// A member in a script, with the driver that the scripts assume.
///
/// Divan sends at once what need not wait for the disk. A script collects all output until
/// `process-ready`, so this type holds it until then.
struct ScriptNode {
    let settings: RaftSettings
    var raft: Raft
    var disk: RestoredState
    var outbox: [Message] = []
    var pending: [StorageWrite] = []
    var toApply: [LogEntry] = []
    /// The queues of the append and apply threads of a member with asynchronous storage.
    var appending: [[StorageWrite]] = []
    var applying: [[LogEntry]] = []
    /// The last applied position, and the configuration there.
    var applied: SnapshotDescription
    /// The state when the last `process-ready` began.
    var published = Facts()
    var dice: UInt32 = 0
    /// Changes to propose again: they were refused because no entry of the term was committed.
    var changes: [ConfigurationChange] = []
    /// The index of the newest snapshot sent to each member.
    var snapshotsSent: [NodeNumber: LogIndex] = [:]

    init(_ settings: RaftSettings, _ disk: RestoredState) {
        self.settings = settings
        self.disk = disk
        raft = Raft(settings, restoring: disk)
        applied = disk.snapshot
        published = facts
    }

    /// The current state.
    var facts: Facts {
        Facts(
            term: raft.term,
            vote: raft.vote?.value ?? 0,
            commit: raft.commit,
            role: Self.name(of: raft.role),
            leader: raft.leader?.value ?? 0,
            configuration: Notation.text(applied.configuration)
        )
    }

    private static func name(of role: RaftRole) -> String {
        switch role {
        case .follower: "StateFollower"
        case .preCandidate: "StatePreCandidate"
        case .candidate: "StateCandidate"
        case .leader: "StateLeader"
        }
    }

    var isReady: Bool {
        var now = facts
        now.configuration = published.configuration
        return !outbox.isEmpty || !pending.isEmpty || !toApply.isEmpty || now != published
    }

    mutating func publish() {
        published = facts
    }

    mutating func collect(_ ready: Ready) {
        outbox += ready.messages
        toApply += ready.toApply
        if let write = ready.write { pending.append(write) }
    }

    mutating func store(_ writes: [StorageWrite]) {
        for write in writes {
            if let snapshot = write.snapshot {
                disk.snapshot = snapshot
                disk.base = snapshot.position
                disk.entries = []
                applied = snapshot
                toApply.removeAll { $0.index <= snapshot.index }
            }
            if let first = write.entries.first {
                disk.entries.removeAll { $0.index >= first.index }
                disk.entries += write.entries
            }
            if let hardState = write.hardState { disk.hardState = hardState }
        }
    }

    mutating func apply(_ entries: [LogEntry]) {
        for entry in entries {
            precondition(entry.index == applied.index + 1, "entries are applied in order")
            applied.position = entry.position
            if case .configuration(let configuration) = entry.payload {
                applied.configuration = configuration
            }
        }
    }

    /// Removes and returns the entries to apply that the record can know of: those up to the commit
    /// index that it last showed.
    mutating func takeShown() -> [LogEntry] {
        let shown = toApply.filter { $0.index <= published.commit ?? 0 }
        toApply.removeFirst(shown.count)
        return shown
    }

    // MARK: Notation of the scripts

    /// The log on disk, one line for each entry.
    var logLines: [String] {
        disk.entries.filter { $0.index > raft.log.base.index }.map { entry in
            let text =
                switch entry.payload {
                case .empty: "Normal \"\""
                case .command(let bytes): "Normal \(Self.quoted(bytes))"
                case .configuration: "ConfChange"
                }
            return "\(entry.term)/\(entry.index) Entry\(text)"
        }
    }

    private static func quoted(_ bytes: [UInt8]) -> String {
        let text = String(decoding: bytes, as: UTF8.self)
        return "\""
            + text.split(separator: "\"", omittingEmptySubsequences: false)
            .joined(separator: "\\\"") + "\""
    }

    /// The leader's view of a member, as unordered words.
    func progressWords(of node: NodeNumber, _ progress: Progress) -> Set<String> {
        var words: Set<String> = ["match=\(progress.matched)", "next=\(progress.next)"]
        switch progress.state {
        case .probe: words.insert("StateProbe")
        case .replicate: words.insert("StateReplicate")
        case .snapshot:
            words.insert("StateSnapshot")
            words.insert("pendingSnap=\(snapshotsSent[node] ?? 0)")
            // Divan sets `next` only when it leaves this state.
            words.remove("next=\(progress.next)")
        }
        if raft.configuration.learners.contains(node) { words.insert("learner") }
        let inFlightMax = settings.appendsInFlightMax
        if progress.isPaused(inFlightMax: inFlightMax) { words.insert("paused") }
        if node != raft.node, !progress.isActive { words.insert("inactive") }
        let inFlight = progress.inFlight.count
        if inFlight > 0 {
            words.insert("inflight=\(inFlight)" + (inFlight >= inFlightMax ? "[full]" : ""))
        }
        return words
    }
}
