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
