package import SyncWire

/// A request for the next rows of a feed.
package struct FeedRequest: Hashable, Sendable {
    /// The rows after it are sent; of a token with a low sequence, its `resumption` counts.
    package var since: SequenceToken {
        didSet { since = since.resumption }
    }
    /// The newest sequence that may be shown: all of it and below is complete.
    package var through: UInt64
    /// The most rows; nil for all.
    package var limit: Int?
    /// Without tombstones, and without documents that left all channels of the user.
    package var isActiveOnly = false
    /// Whether documents of lost channels are reported; only the dialect of 3 knows that.
    package var sendsRevocations = false

    package init(since: SequenceToken = .zero, through: UInt64, limit: Int? = nil) {
        self.since = since.resumption
        self.through = through
        self.limit = limit
    }
}

/// The next rows of a feed.
package struct FeedPage: Hashable, Sendable {
    package private(set) var rows: [FeedRow] = []
    /// `last_seq` of the answer: the position of the last row, or the request's if there is none.
    package private(set) var last: SequenceToken
    /// Where the feed continues: beyond `last` if the page has all rows, so that the next page does not
    /// read what no row came of.
    package private(set) var next: SequenceToken
    /// Whether the limit ended the page.
    package private(set) var isLimited = false

    /// Reads a page.
    ///
    /// - Throws: `Source.Failure` if the log cannot be read.
    package init<Source: ChannelSource>(
        _ request: FeedRequest,
        of scope: FeedScope,
        from source: Source
    ) throws(Source.Failure) {
        last = request.since
        next = request.since
        var walk = FeedWalk(request, scope, source: source)
        while true {
            if let limit = request.limit, rows.count >= limit {
                isLimited = true
                next = last
                return
            }
            guard let row = try walk.next() else { break }
            rows.append(row)
            last = row.position
        }
        next = max(request.since, SequenceToken(request.through))
    }

    /// Reads the newest versions of named documents that the scope shows, for the filter `_doc_ids`.
    ///
    /// The scope shows a document also if it has left one of its channels since the request's position.
    /// `isActiveOnly` has no effect, as in Sync Gateway.
    ///
    /// - Throws: `Source.Failure` if the log cannot be read.
    package init<Source: ChannelSource>(
        documents: [[UInt8]],
        _ request: FeedRequest,
        of scope: FeedScope,
        from source: Source
    ) throws(Source.Failure) {
        last = request.since
        next = request.since
        var found: [FeedRow] = []
        for document in Set(documents) {
            guard let newest = try source.newest(document), case let row = newest.row,
                !row.flags.contains(.principal), row.sequence <= request.through,
                SequenceToken(row.sequence) > request.since
            else { continue }
            let removed = newest.removals.filter { removal in
                SequenceToken(removal.sequence) > request.since && scope.channels[.all] == nil
                    && scope.shows([removal.channel])
            }
            guard scope.shows(newest.channels) || !removed.isEmpty else { continue }
            var flags = row.flags
            if removed.contains(where: \.isDeletion) { flags.insert(.deleted) }
            found.append(
                FeedRow(
                    SequenceToken(row.sequence),
                    LogRow(
                        row.sequence,
                        row.document,
                        revision: row.revision,
                        flags: flags,
                        entered: row.entered
                    ),
                    removed: removed.map(\.channel).sorted()
                )
            )
        }
        found.sort { $0.position < $1.position }
        let count = min(request.limit ?? found.count, found.count)
        isLimited = count < found.count
        rows = Array(found.prefix(count))
        if let row = rows.last { last = row.position }
        next = last
    }
}

extension ChannelLog {
    /// Reads a page.
    ///
    /// The initializers of a page are generic, and are made for a log only in this module.
    ///
    /// - Parameters:
    ///   - request: Which rows are wanted.
    ///   - scope: What the user may see.
    ///   - documents: The ids of a filter `_doc_ids`; nil for all rows.
    /// - Returns: The page, which ends with the last row at present or at the limit.
    package func page(
        _ request: FeedRequest,
        of scope: FeedScope,
        documents: [[UInt8]]?
    ) -> FeedPage {
        if let documents { return FeedPage(documents: documents, request, of: scope, from: self) }
        return FeedPage(request, of: scope, from: self)
    }
}

/// A row of a feed.
package struct FeedRow: Hashable, Sendable {
    package let position: SequenceToken
    /// The document's id, or `_user/NAME`.
    package let document: [UInt8]
    /// The revisions of `changes`, the winner first; none for principals.
    package private(set) var revisions: [RevisionID]
    package private(set) var isDeleted: Bool
    /// The channels that the document left with this version, in order.
    package let removed: [ChannelName]
    /// Whether the user lost the last channel by which it had the document.
    package let isRevoked: Bool
    package let flags: LogRow.Flags

    init(
        _ position: SequenceToken,
        _ row: LogRow,
        removed: [ChannelName] = [],
        isRevoked: Bool = false
    ) {
        self.position = position
        document = row.document
        revisions = row.revision.map { [$0] } ?? []
        isDeleted = row.flags.contains(.deleted)
        self.removed = removed
        self.isRevoked = isRevoked
        flags = row.flags
    }

    init(_ principal: FeedScope.PrincipalRow) {
        position = SequenceToken(principal.sequence)
        document = principal.id
        revisions = []
        isDeleted = false
        removed = []
        isRevoked = false
        flags = []
    }

    /// Whether the document left all channels by which the feed shows it.
    package var isRemoval: Bool { flags.contains(.removed) }
    /// A row of a user or a role in the feed of an administrator: `changes` has an empty revision.
    package var isPrincipal: Bool { flags.contains(.principal) }
    /// Whether `style=all_docs` shows more leaves than the row has.
    package var needsLeaves: Bool { flags.contains(.branched) }

    /// Adds the other leaves of the document, for `style=all_docs`.
    ///
    /// A live leaf makes the row one of a live document.
    package mutating func add(
        leaves: [(revision: RevisionID, isDeleted: Bool)],
        isActiveOnly: Bool
    ) {
        for leaf in leaves where !revisions.contains(leaf.revision) {
            if !leaf.isDeleted { isDeleted = false }
            if !leaf.isDeleted || !isActiveOnly { revisions.append(leaf.revision) }
        }
    }
}
