internal import Vocabulary

/// The log as one sequence: what is on disk, what is on its way there, and where it begins.
///
/// Everything behind the base is in memory: a metadata log is bounded by its snapshots. Nothing in
/// here counts as durable because it was handed out; `stored` says so.
///
/// - base ≤ snapshot ≤ applied ≤ commit ≤ last, and applied ≤ durable ≤ last.
/// - What is committed is never truncated.
package struct RaftLog: Sendable {
    /// A write that was handed out and not reported back.
    private struct Flight: Sendable {
        var number: UInt64
        /// The last entry that is durable once this write is: lowered when a later write cuts it.
        var last: LogIndex
    }

    private struct Placed: Sendable {
        var index: LogIndex
        var configuration: VoterConfiguration
    }

    /// The newest entry that is gone.
    package private(set) var base: LogPosition
    /// The newest snapshot there is to send.
    package private(set) var snapshot: SnapshotDescription
    private var entries: [LogEntry]
    /// Configurations by the entry that brought them, the base's first.
    private var configurations: [Placed]
    package private(set) var commit: LogIndex
    /// Handed out to be applied.
    package private(set) var applied: LogIndex
    package private(set) var durable: LogIndex
    /// From here on entries have not been handed out to be stored.
    private var unwritten: LogIndex
    private var flights: [Flight] = []

    package init(snapshot: SnapshotDescription, base: LogPosition? = nil, entries: [LogEntry]) {
        let base = base ?? snapshot.position
        self.base = base
        self.snapshot = snapshot
        self.entries = entries
        configurations = [Placed(index: 0, configuration: snapshot.configuration)]
        commit = snapshot.index
        applied = snapshot.index
        durable = entries.last?.index ?? max(base.index, snapshot.index)
        unwritten = durable + 1
        var before = base.index
        for entry in entries {
            precondition(entry.index == before + 1, "entries are stored without a gap")
            before = entry.index
            if entry.index > snapshot.index { notice(entry) }
        }
        precondition(lastIndex >= snapshot.index, "the stored entries reach the snapshot")
    }

    package var last: LogPosition { entries.last?.position ?? base }
    package var lastIndex: LogIndex { last.index }
    package var firstIndex: LogIndex { base.index + 1 }

    /// The newest configuration in the log, and the entry that brought it.
    package var configuration: VoterConfiguration {
        configurations[configurations.count - 1].configuration
    }
    package var configurationIndex: LogIndex { configurations[configurations.count - 1].index }

    /// The committed configuration, and its place; nil where the newest one is committed.
    package var configurationBefore: (index: LogIndex, configuration: VoterConfiguration)? {
        guard configurationIndex > commit else { return nil }
        return configurations.last { $0.index <= commit }.map { ($0.index, $0.configuration) }
    }

    /// Everybody that the committed configuration names, or one behind it.
    var members: [NodeNumber] {
        let committed = configurations.lastIndex { $0.index <= commit } ?? 0
        return configurations[committed...].flatMap(\.configuration.members)
            .sortedWithoutRepetition
    }

    /// Whether a node may stand: it votes in the committed configuration, or in one behind it.
    ///
    /// Not in the newest alone. Who remains may have lost the entry that removes another in a crash,
    /// and cannot be elected behind that one, whose log is longer: only it can bring the group on, as
    /// long as it does not know its removal to be committed (thesis 4.2.2).
    func mayStand(_ node: NodeNumber) -> Bool {
        let committed = configurations.lastIndex { $0.index <= commit } ?? 0
        return configurations[committed...].contains { $0.configuration.isVoter(node) }
    }

    /// The term of an entry, where the log still knows it.
    package func term(at index: LogIndex) -> Term? {
        if index == base.index { return base.term }
        if index == snapshot.index { return snapshot.position.term }
        guard index > base.index, index <= lastIndex else { return nil }
        return entries[Int(index - firstIndex)].term
    }

    package func contains(_ position: LogPosition) -> Bool {
        term(at: position.index) == position.term
    }

    /// Entries from `start` on, at least one where there is one, `bytesMax` at most.
    package func entries(from start: LogIndex, bytesMax: Int = .max) -> [LogEntry] {
        guard start <= lastIndex else { return [] }
        precondition(start >= firstIndex, "entries behind the base are gone")
        let tail = entries[Int(start - firstIndex)...]
        if bytesMax == .max { return Array(tail) }
        var size = 0
        var end = tail.startIndex
        for entry in tail {
            size += entry.bytes
            if size > bytesMax, end > tail.startIndex { break }
            end += 1
        }
        return Array(tail[..<end])
    }

    /// The newest position at or below `index` whose term is not above `term`: where two logs may
    /// agree, found without asking entry by entry.
    package func candidate(atOrBelow index: LogIndex, term: Term) -> LogPosition {
        var place = min(index, lastIndex)
        while place > base.index {
            guard let found = self.term(at: place), found > term else { break }
            place -= 1
        }
        return LogPosition(term: self.term(at: place) ?? 0, index: place)
    }

    private mutating func notice(_ entry: LogEntry) {
        guard case .configuration(let configuration) = entry.payload else { return }
        configurations.append(Placed(index: entry.index, configuration: configuration))
    }
}

/// How it changes.
extension RaftLog {
    mutating func append(_ entry: LogEntry) {
        precondition(entry.index == lastIndex + 1, "entries follow each other")
        entries.append(entry)
        notice(entry)
    }

    /// Drops the entries from `index` on: a leader of a later term has others there.
    mutating func truncate(from index: LogIndex) {
        precondition(index > commit, "what is committed is never truncated")
        entries.removeLast(Int(lastIndex - index + 1))
        configurations.removeAll { $0.index >= index }
        durable = min(durable, index - 1)
        unwritten = min(unwritten, index)
        // Writes on their way hold entries that are no longer ours: they make nothing durable.
        for place in flights.indices { flights[place].last = min(flights[place].last, index - 1) }
    }

    /// Entries that nobody has been asked to store yet.
    ///
    /// They replace whatever the disk has there.
    mutating func takeUnwritten(number: UInt64) -> [LogEntry] {
        let taken = entries(from: max(unwritten, firstIndex))
        unwritten = lastIndex + 1
        flights.append(Flight(number: number, last: lastIndex))
        return taken
    }

    var hasUnwritten: Bool { unwritten <= lastIndex }

    /// Writes up to `number` are on disk.
    mutating func stored(_ number: UInt64) {
        for flight in flights where flight.number <= number { durable = max(durable, flight.last) }
        flights.removeAll { $0.number <= number }
    }

    mutating func commit(to index: LogIndex) {
        precondition(index <= lastIndex, "only what is in the log can be committed")
        commit = max(commit, index)
    }

    /// Committed entries that are on disk here and were not handed out yet.
    mutating func takeCommitted() -> [LogEntry] {
        let end = min(commit, durable)
        guard applied < end else { return [] }
        let first = Int(applied + 1 - firstIndex)
        applied = end
        return Array(entries[first...Int(end - firstIndex)])
    }

    /// Everything is replaced by a snapshot that came from the leader.
    mutating func restore(_ description: SnapshotDescription, number: UInt64) {
        base = description.position
        snapshot = description
        entries = []
        configurations = [Placed(index: 0, configuration: description.configuration)]
        commit = max(commit, description.index)
        applied = description.index
        // The old log is being replaced: nothing is durable before that is done.
        durable = 0
        unwritten = description.index + 1
        flights = [Flight(number: number, last: description.index)]
    }

    /// A snapshot of what was applied is on disk: the log may begin later.
    mutating func compact(_ description: SnapshotDescription, keeping count: UInt64) {
        precondition(description.index <= applied, "a snapshot holds what was applied")
        guard description.index > snapshot.index else { return }
        snapshot = description
        let end = description.index > count ? description.index - count : 0
        if end > base.index, let term = term(at: end) {
            entries.removeFirst(Int(end - base.index))
            base = LogPosition(term: term, index: end)
        }
        // The newest configuration at the snapshot becomes the first of all.
        let last = configurations.lastIndex { $0.index <= description.index } ?? 0
        configurations.removeFirst(last)
        configurations[0].index = min(configurations[0].index, description.index)
    }
}
