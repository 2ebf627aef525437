internal import SyncWire

/// The rows that a feed sends late because of what was granted or lost at one sequence.
///
/// In the dialect of 1.4, tombstones and removals are sent late too: a device that lost the channel and
/// has it again learns of them only so. In that of 3 they are sent late only of channels that the user had
/// before.
struct LateRows<Source: ChannelSource> {
    let trigger: FeedTrigger
    private let request: FeedRequest
    private let scope: FeedScope
    private let source: Source
    private var granted: [LogCursor<Source>]
    private var lost: [LogCursor<Source>]

    init(_ trigger: FeedTrigger, _ request: FeedRequest, scope: FeedScope, source: Source) {
        self.trigger = trigger
        self.request = request
        self.scope = scope
        self.source = source
        let since = request.since
        let after = since.trigger == trigger.sequence ? since.sequence : 0
        granted = trigger.channels.map { LogCursor($0, after: after) }
        lost = trigger.lost.map { LogCursor($0.name, after: after) }
    }

    /// The next row; nil at the end.
    ///
    /// - Throws: `Source.Failure` if the log cannot be read.
    mutating func next() throws(Source.Failure) -> FeedRow? {
        while true {
            let older = try granted.lowestSequence(from: source)
            let first = older < trigger.sequence ? older : .max
            let sequence = min(first, try lost.lowestSequence(from: source))
            // From the trigger on, granted rows are plain.
            guard sequence <= request.through else { return nil }
            var row: FeedRow?
            if sequence == first {
                let found = try granted.readRows(at: sequence, from: source)
                row = try lateRow(found)
            }
            let revoked = try lost.readRows(at: sequence, from: source)
            if let row { return row }
            if let row = try revokedRow(revoked) { return row }
        }
    }

    private func lateRow(_ found: FoundRows) throws(Source.Failure) -> FeedRow? {
        guard let row = found.row else { return nil }
        let isDeleted = row.flags.contains(.deleted)
        if row.flags.contains(.principal) { return nil }
        if !found.isLive || isDeleted {
            if request.isActiveOnly || !found.rows.contains(where: { sendsEnds(of: $0.channel) }) {
                return nil
            }
            // A live newest version has a row of its own, and a device may have it already; Sync Gateway 1.4 sends both.
            guard let newest = try source.newest(row.document) else { return nil }
            if scope.dialect == .third, newest.row.sequence > row.sequence, hasLive(newest) {
                return nil
            }
        }
        let position = SequenceToken(row.sequence, trigger: trigger.sequence)
        let late = FeedRow(position, row, removed: found.removed.filter(sendsEnds))
        // Sync Gateway 1.4 sends each version with each grant, ours so only the removals.
        if scope.dialect == .first, !found.isLive { return late }
        for membership in try source.memberships(of: row) {
            guard let earlier = scope.channels[membership.channel], earlier < trigger.sequence
            else { continue }
            if membership.isRemoval, found.isLive { continue }
            // An earlier grant has shown the version, unless it sends no ends.
            let isEnd = membership.isRemoval || isDeleted
            let isPlain = earlier <= row.sequence
            if !isEnd || isPlain || sendsEnds(of: membership.channel) { return nil }
        }
        return late
    }

    /// Whether the user sees a live document; its tombstone may be one that is not sent late.
    private func hasLive(_ newest: NewestVersion) -> Bool {
        !newest.row.flags.contains(.deleted) && scope.shows(newest.channels)
    }

    /// Whether tombstones and removals of a channel are sent late: a device may have its documents.
    private func sendsEnds(of channel: ChannelName) -> Bool {
        scope.dialect == .first || scope.regainedChannels.contains(channel)
    }

    /// A document of a lost channel that the device may have, and that the user has in no other way.
    private func revokedRow(_ found: FoundRows) throws(Source.Failure) -> FeedRow? {
        guard let row = found.row, !row.flags.contains(.principal) else { return nil }
        let wasShown = found.rows.contains { name, row in
            let end = row.isRemoval ? row.sequence : .max
            let periods = trigger.lost.first { $0.name == name }?.periods ?? []
            return periods.contains { $0.start < end && row.entered < $0.end }
        }
        guard wasShown, let newest = try source.newest(row.document), !hasLive(newest) else {
            return nil
        }
        // The revision of the row, not the newest one, which is not for the user.
        let position = SequenceToken(row.sequence, trigger: trigger.sequence)
        return FeedRow(position, row, isRevoked: true)
    }
}

/// Reads the log of one channel forwards, in growing batches.
struct LogCursor<Source: ChannelSource> {
    /// A feed with many channels mostly finds few new rows in each.
    private static var firstCount: Int { 4 }
    private static var countMax: Int { 64 }

    let channel: ChannelName
    private var after: UInt64
    private var rows: ArraySlice<LogRow> = []
    private var count = firstCount
    private var isAtEnd = false

    init(_ channel: ChannelName, after sequence: UInt64) {
        self.channel = channel
        after = sequence
    }

    /// The next row, which stays the next one; nil at the end.
    ///
    /// - Throws: `Source.Failure` if the log cannot be read.
    mutating func row(from source: Source) throws(Source.Failure) -> LogRow? {
        if rows.isEmpty, !isAtEnd {
            rows = try source.rows(of: channel, after: after, atMost: count)[...]
            isAtEnd = rows.count < count
            count = min(count * 2, Self.countMax)
        }
        return rows.first
    }

    mutating func advance() {
        after = rows.removeFirst().sequence
    }
}

/// The rows of one version in several channels.
struct FoundRows {
    var rows: [(channel: ChannelName, row: LogRow)] = []

    /// A row that is no removal if there is one; nil if no channel has the version.
    var row: LogRow? { (rows.first { !$0.row.isRemoval } ?? rows.first)?.row }
    /// The channels that the document left, in order.
    var removed: [ChannelName] { rows.filter(\.row.isRemoval).map(\.channel).sorted() }
    /// Whether the document is in one of the channels.
    var isLive: Bool { rows.contains { !$0.row.isRemoval } }
}

extension Array {
    /// The lowest sequence of a next row; the highest number if there is none.
    ///
    /// - Throws: `Source.Failure` if the log cannot be read.
    mutating func lowestSequence<Source: ChannelSource>(
        from source: Source
    ) throws(Source.Failure) -> UInt64 where Element == LogCursor<Source> {
        var lowest = UInt64.max
        for index in indices {
            if let row = try self[index].row(from: source) {
                lowest = Swift.min(lowest, row.sequence)
            }
        }
        return lowest
    }

    /// Passes all rows of the version with `sequence`.
    ///
    /// - Throws: `Source.Failure` if the log cannot be read.
    mutating func readRows<Source: ChannelSource>(
        at sequence: UInt64,
        from source: Source
    ) throws(Source.Failure) -> FoundRows where Element == LogCursor<Source> {
        var found = FoundRows()
        for index in indices {
            guard let row = try self[index].row(from: source), row.sequence == sequence else {
                continue
            }
            found.rows.append((self[index].channel, row))
            self[index].advance()
        }
        return found
    }
}
