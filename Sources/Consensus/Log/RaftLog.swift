internal import Vocabulary

/// The log: where it begins, which entries are on disk, and which are being written.
///
/// All entries after the base are in memory: snapshots keep a metadata log short. An entry becomes
/// durable only when `stored` reports its write.
///
/// - base ≤ snapshot ≤ applied ≤ commit ≤ last, and applied ≤ durable ≤ last.
/// - A committed entry is never truncated.
package struct RaftLog: Sendable {
    /// A write that was issued and is not reported as stored.
    private struct Flight: Sendable {
        var number: UInt64
        /// The last entry that becomes durable with this write; lowered when the log is truncated.
        var last: LogIndex
    }

    private struct Placed: Sendable {
        var index: LogIndex
        var configuration: VoterConfiguration
    }

    /// The position before the first entry in the log.
    package private(set) var base: LogPosition
    /// The newest snapshot, which is sent to members that need one.
    package private(set) var snapshot: SnapshotDescription
    private var entries: [LogEntry]
    /// The configuration in force at the snapshot and all later ones, in order, each with the index
    /// of its entry.
    private var configurations: [Placed]
    package private(set) var commit: LogIndex
    /// The last entry returned to be applied.
    package private(set) var applied: LogIndex
    package private(set) var durable: LogIndex
    /// The first entry for which no write has been issued.
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
            precondition(entry.index == before + 1, "stored entries have no gap")
            before = entry.index
            if entry.index > snapshot.index { recordConfiguration(of: entry) }
        }
        precondition(lastIndex >= snapshot.index, "the stored entries reach the snapshot")
    }

    package var last: LogPosition { entries.last?.position ?? base }
    package var lastIndex: LogIndex { last.index }
    package var firstIndex: LogIndex { base.index + 1 }

    /// The newest configuration in the log.
    package var configuration: VoterConfiguration {
        configurations[configurations.count - 1].configuration
    }
    /// The index of its entry; 0 if the configuration came with a snapshot.
    package var configurationIndex: LogIndex { configurations[configurations.count - 1].index }

    /// The committed configuration and its index; nil if the newest configuration is committed.
    package var configurationBefore: (index: LogIndex, configuration: VoterConfiguration)? {
        guard configurationIndex > commit else { return nil }
        return configurations.last { $0.index <= commit }.map { ($0.index, $0.configuration) }
    }

    /// All members of the committed configuration and of the later ones, in order.
    var members: [NodeNumber] {
        let committed = configurations.lastIndex { $0.index <= commit } ?? 0
        return configurations[committed...].flatMap(\.configuration.members)
            .sortedWithoutRepetition
    }

    /// Whether a node may campaign: it is a voter in the committed configuration or in a later one.
    ///
    /// The newest configuration alone is not enough. The remaining voters may have lost, in a
    /// crash, the entry that removes this node. Its log is then longer than theirs, so they cannot
    /// win its vote: until the node knows its removal to be committed, only it can lead (thesis
    /// 4.2.2).
    func mayCampaign(_ node: NodeNumber) -> Bool {
        let committed = configurations.lastIndex { $0.index <= commit } ?? 0
        return configurations[committed...].contains { $0.configuration.isVoter(node) }
    }

    /// The term of an entry; nil if the log does not have the entry, or no longer.
    package func term(at index: LogIndex) -> Term? {
        if index == base.index { return base.term }
        if index == snapshot.index { return snapshot.position.term }
        guard index > base.index, index <= lastIndex else { return nil }
        return entries[Int(index - firstIndex)].term
    }

    package func contains(_ position: LogPosition) -> Bool {
        term(at: position.index) == position.term
    }

    /// Entries from `start` on, of `bytesMax` bytes at most, but at least one.
    ///
    /// Empty if `start` is beyond the last entry.
    package func entries(from start: LogIndex, bytesMax: Int = .max) -> [LogEntry] {
        guard start <= lastIndex else { return [] }
        precondition(start >= firstIndex, "entries before the base are no longer in the log")
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

    /// The newest position at or below `index` whose term is at most `term`: the last position
    /// where this log can agree with one that has `term` at `index`, or the base if there is none.
    ///
    /// It saves probing entry by entry.
    package func candidate(atOrBelow index: LogIndex, term: Term) -> LogPosition {
        var place = min(index, lastIndex)
        while place > base.index {
            guard let found = self.term(at: place), found > term else { break }
            place -= 1
        }
        return LogPosition(term: self.term(at: place) ?? 0, index: place)
    }

    private mutating func recordConfiguration(of entry: LogEntry) {
        guard case .configuration(let configuration) = entry.payload else { return }
        configurations.append(Placed(index: entry.index, configuration: configuration))
    }
}

/// Changes of the log.
extension RaftLog {
    mutating func append(_ entry: LogEntry) {
        precondition(entry.index == lastIndex + 1, "entries follow each other")
        entries.append(entry)
        recordConfiguration(of: entry)
    }

    /// Drops the entries from `index` on, which conflict with those of a later term's leader.
    mutating func truncate(from index: LogIndex) {
        precondition(index > commit, "a committed entry is never truncated")
        entries.removeLast(Int(lastIndex - index + 1))
        configurations.removeAll { $0.index >= index }
        durable = min(durable, index - 1)
        unwritten = min(unwritten, index)
        // Writes under way contain dropped entries, which do not become durable.
        for place in flights.indices { flights[place].last = min(flights[place].last, index - 1) }
    }

    /// Returns the entries for which no write has been issued, and counts them as part of write
    /// `number`.
    ///
    /// They replace what the disk has from the first of them on.
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

    /// Returns the entries to apply, once each: committed, on disk here and not returned before.
    mutating func takeCommitted() -> [LogEntry] {
        let end = min(commit, durable)
        guard applied < end else { return [] }
        let first = Int(applied + 1 - firstIndex)
        applied = end
        return Array(entries[first...Int(end - firstIndex)])
    }

    /// Replaces the whole log by a snapshot of the leader, which write `number` stores.
    mutating func restore(_ description: SnapshotDescription, number: UInt64) {
        base = description.position
        snapshot = description
        entries = []
        configurations = [Placed(index: 0, configuration: description.configuration)]
        commit = max(commit, description.index)
        applied = description.index
        // Write `number` replaces the stored log: until it is on disk, nothing counts as durable.
        durable = 0
        unwritten = description.index + 1
        flights = [Flight(number: number, last: description.index)]
    }

    /// Moves the start of the log after a snapshot is on disk, and keeps `count` entries before it.
    mutating func compact(_ description: SnapshotDescription, keeping count: UInt64) {
        precondition(description.index <= applied, "a snapshot holds what was applied")
        guard description.index > snapshot.index else { return }
        snapshot = description
        let end = description.index > count ? description.index - count : 0
        if end > base.index, let term = term(at: end) {
            entries.removeFirst(Int(end - base.index))
            base = LogPosition(term: term, index: end)
        }
        // Keep the configuration that was in force at the snapshot, and the later ones.
        let last = configurations.lastIndex { $0.index <= description.index } ?? 0
        configurations.removeFirst(last)
        configurations[0].index = min(configurations[0].index, description.index)
    }
}
