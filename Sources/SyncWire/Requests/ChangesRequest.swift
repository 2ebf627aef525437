package import Bytes

/// A request for `_changes`, by GET, by POST, or in the first message of a WebSocket.
package struct ChangesRequest: Equatable, Sendable {
    package enum Feed: String, Sendable {
        case normal
        case longpoll
        case continuous
        case websocket
    }

    package enum Since: Equatable, Sendable {
        case token(SequenceToken)
        /// The newest sequence at the time of the request (CouchDB's `now`).
        case now
    }

    package enum Filter: Equatable, Sendable {
        /// Everything that the user may see.
        case none
        /// Without any, nothing.
        case channels([String])
        /// At least one document; only with the feed `normal`, whose `last_seq` is then a number in 1.4.
        case documents([String])
    }

    /// The members and kinds of rows.
    package struct Content: Equatable, Sendable {
        /// `style=all_docs`: all leaves of a document, not only the winner.
        package var hasAllLeaves = false
        /// No deleted and no removed documents.
        package var isActiveOnly = false
        package var hasDocuments = false
        package var hasConflicts = false
        package var hasAttachments = false

        package init() {}
    }

    /// How long the answer waits for changes.
    package struct Waiting: Equatable, Sendable {
        package static let heartbeatMillisecondsMin = 25_000
        package static let timeoutMillisecondsDefault = 300_000
        package static let timeoutMillisecondsMax = 900_000

        /// The interval of heartbeats; 0 for none.
        package let heartbeatMilliseconds: Int
        /// When an answer without changes ends; 0 for never, which is so with heartbeats.
        package let timeoutMilliseconds: Int

        /// Moves the parameters into their bounds.
        ///
        /// - Parameters:
        ///   - heartbeat: Milliseconds; nil and 0 for none.
        ///   - timeout: Milliseconds; nil for the default, 0 for never.
        ///   - heartbeatMillisecondsMax: From the configuration; 0 for no bound.
        package init(heartbeat: Int?, timeout: Int?, heartbeatMillisecondsMax: Int) {
            let wanted = heartbeat ?? 0
            var bounded = wanted == 0 ? 0 : max(wanted, Waiting.heartbeatMillisecondsMin)
            if heartbeatMillisecondsMax > 0 { bounded = min(bounded, heartbeatMillisecondsMax) }
            heartbeatMilliseconds = bounded
            let limit = min(
                timeout ?? Waiting.timeoutMillisecondsDefault,
                Waiting.timeoutMillisecondsMax
            )
            timeoutMilliseconds = bounded > 0 ? 0 : limit
        }
    }

    package private(set) var feed: Feed
    package let since: Since
    /// The largest number of rows; nil if there is no bound, as with a negative number in a body.
    ///
    /// CouchDB's replicator requests 0 rows; for Sync Gateway 0 is no bound.
    package let limit: Int?
    package private(set) var filter: Filter
    package let content: Content
    package let waiting: Waiting
    package let isDescending: Bool
    /// A WebSocket's messages are a gzip stream.
    package let isCompressed: Bool

    /// Parses the query of a GET, or the query and the body of a POST; the query overrides the body.
    ///
    /// The body of a GET is empty. `heartbeatMillisecondsMax` is from the configuration; 0 is no bound.
    ///
    /// - Throws: In this order: `.badJSON`, `.badSequence`, the refusals of the filter, `.unknownFeed`.
    package init(
        query: URLParameters,
        body: ByteView = .empty,
        heartbeatMillisecondsMax: Int = 0
    ) throws(RequestRefusal) {
        let given = try RequestParameters(query: query, body: body)
        try self.init(given, heartbeatMillisecondsMax)
        let name = try given.string("feed") ?? ""
        filter = try Filter(given, feed: name)
        guard let feed = name.isEmpty ? .normal : Feed(rawValue: name) else { throw .unknownFeed }
        self.feed = feed
    }

    /// Parses the first message of a WebSocket, whose members are those of a POST's body.
    ///
    /// Its channels are a filter by themselves, which shows nothing if one has an invalid name; other filters are
    /// those of the query.
    ///
    /// - Throws: As for a POST.
    package init(
        webSocketMessage message: ByteView,
        filter: Filter = .none,
        heartbeatMillisecondsMax: Int = 0
    ) throws(RequestRefusal) {
        let given = try RequestParameters(query: .none, body: message)
        try self.init(given, heartbeatMillisecondsMax)
        self.filter = filter
        if let channels = try given.list("channels") {
            self.filter = .channels(channels.allSatisfy(Filter.isChannel) ? channels : [])
        }
        feed = .websocket
    }

    private init(
        _ given: RequestParameters,
        _ heartbeatMillisecondsMax: Int
    ) throws(RequestRefusal) {
        feed = .normal
        filter = .none
        since = try ChangesRequest.since(given)
        limit = try given.integer("limit", mayBeNegative: true)
        content = try Content(given)
        waiting = Waiting(
            heartbeat: try given.integer("heartbeat"),
            timeout: try given.integer("timeout"),
            heartbeatMillisecondsMax: heartbeatMillisecondsMax
        )
        isDescending = try given.bool("descending")
        isCompressed = try given.string("accept_encoding") == "gzip"
    }

    private static func since(_ given: RequestParameters) throws(RequestRefusal) -> Since {
        // A body may have a number here, which is no text.
        if let text = try? given.string("since"), text == "now" { return .now }
        return .token(try given.sequence("since") ?? .zero)
    }
}

extension ChangesRequest.Content {
    /// - Throws: `.badJSON`.
    fileprivate init(_ given: RequestParameters) throws(RequestRefusal) {
        hasAllLeaves = try given.string("style") == "all_docs"
        isActiveOnly = try given.bool("active_only")
        hasDocuments = try given.bool("include_docs")
        hasConflicts = try given.bool("conflicts")
        hasAttachments = try given.bool("attachments")
    }
}

extension ChangesRequest.Filter {
    /// Longer channel names are refused; names above 250 bytes only have a warning in the log.
    private static let channelBytesMax = 1_000

    /// - Throws: The refusal of the filter or of its list.
    fileprivate init(_ given: RequestParameters, feed: String) throws(RequestRefusal) {
        switch try given.string("filter") ?? "" {
        case "": self = .none
        case "sync_gateway/bychannel":
            guard let channels = try given.list("channels") else { throw .missingChannels }
            guard !channels.isEmpty else { throw .emptyChannels }
            for channel in channels where !Self.isChannel(channel) { throw .badChannel(channel) }
            self = .channels(channels)
        case "_doc_ids":
            guard ["", "normal"].contains(feed) else { throw .documentIDsNeedNormalFeed }
            guard let ids = try given.list("doc_ids") else { throw .missingDocumentIDs }
            guard !ids.isEmpty else { throw .emptyDocumentIDs }
            self = .documents(ids)
        default: throw .unknownFilter
        }
    }

    fileprivate static func isChannel(_ name: String) -> Bool {
        !name.isEmpty && name.utf8.count <= channelBytesMax
            && !name.utf8.contains(UInt8(ascii: ","))
    }
}
