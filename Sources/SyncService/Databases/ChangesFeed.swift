internal import Bytes
internal import Revisions
internal import Seams
package import SyncWire
internal import Syncing

/// A feed of changes that one request follows.
///
/// It holds a position, not a queue: a client that reads slowly costs nothing, and one that waits costs its
/// topics. What the user may see is read anew with each page, unless neither the user nor a role has changed.
package final class ChangesFeed: @unchecked Sendable {  // tidy:allow belongs to the database's lane
    package struct Page: Sendable {
        package var rows: [ChangesRow] = []
        /// Whether there is nothing more at present.
        package var isAtEnd = true
    }

    /// The end of a feed: the user is gone or was disabled, or the database is not online.
    package struct Ended: Error {}

    /// Rows of a page: enough for a socket, and few enough that other requests wait for one no longer than
    /// a millisecond or two.
    package static let rowsMax = 200
    /// The same with documents, each of which may have 20 MB.
    private static let documentsMax = 20

    private let database: SyncDatabase
    private let request: ChangesRequest
    /// Nil for the administrator.
    private let user: PrincipalKey?
    private let filter: Filter
    private var position: SequenceToken
    /// The position behind the last row: `last_seq`.
    package private(set) var last: SequenceToken
    private var left: Int?
    /// Of the last page.
    private var visibility: Visibility?
    private var listening: (listener: any ChangeListener, topics: Set<Subscriptions.Topic>)?
    /// Whether there may be more rows than the last page had.
    package private(set) var hasChanged = false
    private var isInterrupted = false
    private var waiter: UnsafeContinuation<Void, Never>?

    /// - Throws: `Refusal` 400 if a channel of the filter has an invalid name.
    package init(
        _ request: ChangesRequest,
        of database: SyncDatabase,
        for requester: Requester
    ) throws(Refusal) {
        self.request = request
        self.database = database
        user = requester.user?.key
        let since = database.token(request.since)
        if case .documents = request.filter {
            // As in Sync Gateway, neither a grant nor a low sequence counts; in 1.4 a feed without rows ends at 0.
            position = SequenceToken(since.sequence)
            last = database.dialect == .first ? .zero : since
        } else {
            position = since.resumption
            last = since
        }
        left = request.limit.flatMap { $0 == 0 ? nil : $0 }
        filter = try Filter(request.filter)
        database.add(self)
    }

    /// The user and its scope, as of `version` of the access.
    private final class Visibility: Sendable {
        let version: UInt64
        /// The user, and the roles of now and before; none for the administrator.
        let principals: [PrincipalKey]
        let requester: Requester
        let scope: FeedScope

        init(
            _ version: UInt64,
            _ principals: [PrincipalKey],
            requester: Requester,
            scope: FeedScope
        ) {
            self.version = version
            self.principals = principals
            self.requester = requester
            self.scope = scope
        }
    }

    private struct Filter {
        /// Nil for all channels.
        var names: Set<ChannelName>?
        /// Nil for all documents.
        var documents: [[UInt8]]?

        /// - Throws: `Refusal` 400 if a channel has an invalid name.
        init(_ filter: ChangesRequest.Filter) throws(Refusal) {
            switch filter {
            case .none: break
            case .channels(let channels):
                var found: Set<ChannelName> = []
                for channel in channels {
                    guard let name = ChannelName(channel) else {
                        throw Refusal(RequestRefusal.badChannel(channel))
                    }
                    found.insert(name)
                }
                names = found
            case .documents(let ids): documents = ids.map { Array($0.utf8) }
            }
        }
    }

    /// Whether the limit of the request is reached.
    package var isFinished: Bool { left == 0 }

    /// Reads the next rows.
    ///
    /// - Throws: `Ended`.
    package func next() async throws(Ended) -> Page {
        // Read before the grants: a grant between both would be below `through` and not in the scope,
        // and its late rows would be behind the page for ever.
        let through = database.updateSequence
        let visibility = try await currentVisibility()
        // Changes since `through` are for the next page.
        hasChanged = database.updateSequence > through
        var wanted = FeedRequest(
            since: position,
            through: through,
            limit: min(
                left ?? .max,
                request.content.hasDocuments ? Self.documentsMax : Self.rowsMax
            )
        )
        wanted.isActiveOnly = request.content.isActiveOnly
        let found = await database.stores.channels.page(
            wanted,
            of: visibility.scope,
            documents: filter.documents
        )
        let rows = await rows(found.rows, for: visibility.requester)
        position = found.next
        if !rows.isEmpty { last = found.last }
        left = left.map { $0 - rows.count }
        return Page(rows: rows, isAtEnd: !found.isLimited || isFinished)
    }

    /// Waits for a change since the last page, or for `interrupt`.
    package func wait() async {
        defer { isInterrupted = false }
        if hasChanged || isInterrupted { return }
        await withUnsafeContinuation { waiter = $0 }
    }

    /// Ends the wait that is or comes next: a timer, or the client is gone.
    package func interrupt() {
        isInterrupted = true
        waiter?.resume()
        waiter = nil
    }

    private func wake() {
        hasChanged = true
        waiter?.resume()
        waiter = nil
    }

    /// Must be called at the end: until then the listener keeps the feed.
    package func close() {
        listening?.listener.cancel()
        listening = nil
        database.remove(self)
        interrupt()
    }

    // MARK: The user

    private func currentVisibility() async throws(Ended) -> Visibility {
        guard database.refusal == nil else { throw Ended() }
        let versions = database.stores.channels.accessVersions
        if let visibility,
            !versions.hasChanged(visibility.principals, since: visibility.version)
        {
            return visibility
        }
        let requester = try await requester()
        let scope = await scope(of: requester)
        let roles = requester.access?.roles.names ?? []
        let principals = (user.map { [$0] } ?? []) + roles.map { PrincipalKey(.role, $0) }
        listen(
            to: Set(
                scope.channels.names.map { Subscriptions.Topic.channel($0) }
                    + principals.map { .principal($0) }
            )
        )
        // Channels that were lost with a former role are known from the role.
        let former = requester.user?.roleHistory.entries.map { PrincipalKey(.role, $0.name) } ?? []
        let found = Visibility(
            versions.newest,
            principals + former,
            requester: requester,
            scope: scope
        )
        visibility = found
        return found
    }

    private func requester() async throws(Ended) -> Requester {
        guard let user else { return .administrator }
        guard let requester = await database.requester(user), requester.user?.isDisabled == false
        else { throw Ended() }
        return requester
    }

    private func scope(of requester: Requester) async -> FeedScope {
        guard let user = requester.user, let access = requester.access else {
            return FeedScope(administrator: database.dialect, filter: filter.names)
        }
        return FeedScope(
            user: user,
            access: access,
            roles: await database.heldRoles(of: user, access),
            filter: filter.names,
            dialect: database.dialect
        )
    }

    /// Listens before it reads, so that no change is between.
    private func listen(to topics: Set<Subscriptions.Topic>) {
        guard request.feed != .normal, listening?.topics != topics else { return }
        let listener =
            listening?.listener
            ?? database.stores.channels.listen(to: topics) { [self] in wake() }
        if listening != nil { listener.listen(to: topics) }
        listening = (listener, topics)
    }

    // MARK: Rows

    private func rows(_ found: [FeedRow], for requester: Requester) async -> [ChangesRow] {
        let content = request.content
        var found = found
        if content.hasAllLeaves, found.contains(where: \.needsLeaves) {
            let documents = await database.stores.reads.documents(found.map(\.document))
            for index in found.indices where found[index].needsLeaves {
                let leaves = documents[index]?.metadata.tree.leaves ?? []
                found[index].add(
                    leaves: leaves.map { ($0.id, $0.isDeleted) },
                    isActiveOnly: content.isActiveOnly
                )
            }
        }
        var rows = found.map { ChangesRow($0) }
        if content.hasDocuments {
            for (index, text) in await texts(of: found, for: requester).enumerated() {
                rows[index].document = text
            }
        }
        return rows
    }

    /// The document of each row as JSON; nil for principals.
    private func texts(of found: [FeedRow], for requester: Requester) async -> [[UInt8]?] {
        let places = found.indices.filter { !found[$0].revisions.isEmpty }
        let requests = places.map { place in
            ReadRequest(
                String(decoding: found[place].document, as: UTF8.self),
                found[place].revisions[0].description
            )
        }
        var texts = [[UInt8]?](repeating: nil, count: found.count)
        let output = ByteWriter()
        for (place, result) in zip(places, await database.read(requests, for: requester)) {
            guard case .success(let revision) = result else { continue }
            output.removeAll()
            revision.write(to: output)
            texts[place] = output.bytes
        }
        return texts
    }
}

extension SyncDatabase {
    /// The token after which a feed begins.
    fileprivate func token(_ since: ChangesRequest.Since) -> SequenceToken {
        switch since {
        case .now: return SequenceToken(updateSequence)
        case .token(let token):
            // Sync Gateway 1.4 waits until the sequence is reached.
            guard dialect == .third, token.resumption.sequence > updateSequence else {
                return token
            }
            let text = "A feed of \(name) continues after \(token), but the newest sequence is"
            environment.trace.info(
                "sync",
                "\(text) \(updateSequence): the database is another one, so the feed begins anew."
            )
            return .zero
        }
    }

    /// The roles that a user has or had; only feeds of the dialect of 3 need them.
    fileprivate func heldRoles(of user: Principal, _ access: Access) async -> [FeedScope.HeldRole] {
        guard dialect == .third else { return [] }
        let names = Set(access.roles.names + user.roleHistory.entries.map(\.name))
        var held: [FeedScope.HeldRole] = []
        for name in names.sorted() {
            guard let found = await principal(PrincipalKey(.role, name)) else { continue }
            held.append(FeedScope.HeldRole(found.principal, found.access))
        }
        return held
    }
}

extension ChangesRow {
    fileprivate init(_ row: FeedRow) {
        self.init(
            sequence: row.position,
            id: String(decoding: row.document, as: UTF8.self),
            // Sync Gateway prints an empty revision for principals in the feed of an administrator.
            revisions: row.isPrincipal ? [""] : row.revisions.map(\.description)
        )
        isDeleted = row.isDeleted
        removed = row.removed.map(\.description)
    }
}
