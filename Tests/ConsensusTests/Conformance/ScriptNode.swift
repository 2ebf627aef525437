import Consensus
import Vocabulary

/// What a script's record says of a member, as far as it does, and what we find.
struct Facts: Equatable {
    var term: Term?
    var vote: UInt16?
    var commit: LogIndex?
    var role: String?
    /// 0 for nobody.
    var leader: UInt16?
    /// The one that is applied.
    var configuration: String?
}

/// A member in a script, with the driver that the scripts suppose.
///
/// Ours sends at once what need not wait for the disk; a script collects what is to be done until
/// it says `process-ready`. So everything is held back in here until then.
struct ScriptNode {
    let settings: RaftSettings
    var raft: Raft
    var disk: RestoredState
    var outbox: [Message] = []
    var pending: [StorageWrite] = []
    var toApply: [LogEntry] = []
    /// What the threads of a member with asynchronous storage have before them.
    var appending: [[StorageWrite]] = []
    var applying: [[LogEntry]] = []
    /// What was applied: how far, and the configuration there.
    var applied: SnapshotDescription
    /// As it was when the last `process-ready` began.
    var published = Facts()
    var dice: UInt32 = 0
    /// Refused because nothing of the term was committed: a driver asks again.
    var changes: [ConfigurationChange] = []
    /// The index of the newest snapshot that each member was sent.
    var snapshotsSent: [NodeNumber: LogIndex] = [:]

    init(_ settings: RaftSettings, _ disk: RestoredState) {
        self.settings = settings
        self.disk = disk
        raft = Raft(settings, restoring: disk)
        applied = disk.snapshot
        published = facts
    }

    /// As it is now.
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

    private static func name(of role: Role) -> String {
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

    /// Applied entries that the record can know of: those below the commit it last showed.
    mutating func takeShown() -> [LogEntry] {
        let shown = toApply.filter { $0.index <= published.commit ?? 0 }
        toApply.removeFirst(shown.count)
        return shown
    }

    // MARK: As the scripts write it

    /// What the disk has, a line an entry.
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

    /// What a leader believes of a member, as words in no order.
    func progressWords(of node: NodeNumber, _ progress: Progress) -> Set<String> {
        var words: Set<String> = ["match=\(progress.matched)", "next=\(progress.next)"]
        switch progress.state {
        case .probe: words.insert("StateProbe")
        case .replicate: words.insert("StateReplicate")
        case .snapshot:
            words.insert("StateSnapshot")
            words.insert("pendingSnap=\(snapshotsSent[node] ?? 0)")
            // Ours is set when the state is left.
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
