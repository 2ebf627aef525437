internal import SyncWire

/// Walks the rows of a feed in order of their positions.
///
/// A version is a plain row if the user had one of its channels when it was written; else it comes late,
/// as `T:N`, with the first grant of one of its channels. So the place of a row depends on grants and
/// documents only, and a feed resumes at any row on any node.
///
/// - A version occurs once; twice only if it left a channel that the user had, and a later grant shows it
///   in another one: first as a removal, then late. In the dialect of 1.4 it also occurs with each later
///   grant of a channel that it left.
/// - A grant at sequence 1 is from the beginning.
///
/// Cost: of a plain row, one comparison for each channel; of a late one, one look-up of its channels.
struct FeedWalk<Source: ChannelSource> {
    private let request: FeedRequest
    private let scope: FeedScope
    private let source: Source
    /// Of the channels whose late rows are behind the walk.
    private var cursors: [LogCursor<Source>] = []
    private var triggers: ArraySlice<FeedTrigger>
    private var late: LateRows<Source>?
    private var showsPrincipal: Bool

    init(_ request: FeedRequest, _ scope: FeedScope, source: Source) {
        self.request = request
        self.scope = scope
        self.source = source
        let since = request.since
        let plain = since.trigger == 0 ? since.sequence : since.trigger - 1
        showsPrincipal = scope.principal.map { SequenceToken($0.sequence) > since } ?? false
        let triggers = FeedTrigger.all(of: scope, request)
        let split = triggers.firstIndex {
            $0.sequence > 0 && SequenceToken(.max, trigger: $0.sequence) > since
        }
        self.triggers = triggers[(split ?? triggers.count)...]
        for trigger in triggers[..<(split ?? triggers.count)] {
            activate(trigger, after: max(plain, trigger.sequence > 0 ? trigger.sequence - 1 : 0))
        }
    }

    /// The next row; nil at the end.
    ///
    /// - Throws: `Source.Failure` if the log cannot be read.
    mutating func next() throws(Source.Failure) -> FeedRow? {
        while true {
            if late != nil {
                if let row = try late?.next() { return row }
                if let trigger = late?.trigger { activate(trigger, after: trigger.sequence - 1) }
                late = nil
            }
            let sequence = try nextPlainSequence()
            if let trigger = triggers.first, trigger.sequence <= min(sequence, request.through) {
                triggers.removeFirst()
                late = LateRows(trigger, request, scope: scope, source: source)
                continue
            }
            guard sequence <= request.through else { return nil }
            if let row = try plainRow(at: sequence) { return row }
        }
    }

    private mutating func activate(_ trigger: FeedTrigger, after sequence: UInt64) {
        cursors += trigger.channels.map { LogCursor($0, after: sequence) }
    }

    /// The lowest sequence of a plain row; the highest number if there is none.
    private mutating func nextPlainSequence() throws(Source.Failure) -> UInt64 {
        let lowest = try cursors.lowestSequence(from: source)
        guard showsPrincipal, let principal = scope.principal else { return lowest }
        return min(lowest, principal.sequence)
    }

    /// Nil if the request does not want the row.
    private mutating func plainRow(at sequence: UInt64) throws(Source.Failure) -> FeedRow? {
        if showsPrincipal, let principal = scope.principal, principal.sequence == sequence {
            showsPrincipal = false
            return FeedRow(principal)
        }
        let found = try cursors.readRows(at: sequence, from: source)
        guard let row = found.row else { return nil }
        if row.flags.contains(.principal), !scope.showsPrincipals { return nil }
        if request.isActiveOnly, !found.isLive || row.flags.contains(.deleted) { return nil }
        return FeedRow(SequenceToken(sequence), row, removed: found.removed)
    }
}

/// The channels that were granted, and those that were lost, at one sequence.
struct FeedTrigger: Hashable {
    let sequence: UInt64
    var channels: [ChannelName] = []
    var lost: [FeedScope.LostChannel] = []

    /// In order of sequences; the first one has all grants from the beginning, with the sequence 0.
    static func all(of scope: FeedScope, _ request: FeedRequest) -> [FeedTrigger] {
        // Most grants are from the beginning.
        var first = FeedTrigger(sequence: 0)
        var found: [UInt64: FeedTrigger] = [:]
        for grant in scope.channels.grants where grant.sequence <= request.through {
            let sequence = start(of: grant)
            if sequence == 0 {
                first.channels.append(grant.name)
            } else {
                found[sequence, default: FeedTrigger(sequence: sequence)].channels
                    .append(grant.name)
            }
        }
        // A device that has pulled nothing has nothing to lose.
        if request.sendsRevocations, request.since > .zero, !request.isActiveOnly {
            for channel in scope.lostChannels where channel.end <= request.through {
                let sequence = channel.end
                found[sequence, default: FeedTrigger(sequence: sequence)].lost.append(channel)
            }
        }
        return [first] + found.values.sorted { $0.sequence < $1.sequence }
    }

    /// The trigger of a grant: 0 if it is from the beginning.
    static func start(of grant: GrantSet<ChannelName>.Grant) -> UInt64 {
        grant.sequence <= 1 ? 0 : grant.sequence
    }
}
