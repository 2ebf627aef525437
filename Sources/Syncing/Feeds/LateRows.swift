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

    init(
        _ trigger: FeedTrigger,
        _ request: FeedRequest,
        _ scope: FeedScope,
        _ source: Source
    ) {
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
        if !found.isLive || isDeleted, request.isActiveOnly || !sendsEnds(found) { return nil }
        for membership in try source.memberships(of: row) {
            guard let earlier = scope.channels[membership.channel], earlier < trigger.sequence else {
                continue
            }
            // An earlier grant has shown this version, or the removal, already.
            if !membership.isRemoval || !found.isLive { return nil }
        }
        let position = FeedPosition(trigger: trigger.sequence, row.sequence)
        return FeedRow(position, row, removed: sendsEnds(found) ? found.removed : [])
    }

    /// Whether a device may have the document already.
    private func sendsEnds(_ found: FoundRows) -> Bool {
        scope.dialect == .first || !scope.regainedChannels.isDisjoint(with: found.channels)
    }

    /// A document of a lost channel that the device may have, and that the user has in no other way.
    private func revokedRow(_ found: FoundRows) throws(Source.Failure) -> FeedRow? {
        guard let row = found.row, !row.flags.contains(.principal) else { return nil }
        let end = row.isRemoval ? row.sequence : .max
        let wasShown = trigger.lost.contains { channel in
            found.channels.contains(channel.name)
                && channel.periods.contains { $0.start < end && row.entered < $0.end }
        }
        guard wasShown, let (newest, channels) = try source.newest(row.document) else { return nil }
        if scope.channels[.all] != nil || channels.contains(where: { scope.channels[$0] != nil }) {
            return nil
        }
        let position = FeedPosition(trigger: trigger.sequence, row.sequence)
        let shown = LogRow(
            row.sequence,
            row.document,
            newest.revision,
            flags: newest.flags,
            entered: row.entered
        )
        return FeedRow(position, shown, isRevoked: true)
    }
}
