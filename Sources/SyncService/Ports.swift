package import Revisions
package import SyncWire
package import Syncing

// The stores of a database: in memory in this process, or a bucket of the cluster.
//
// All calls come from the database's lane, and their answers return there.

/// Writes revisions, at the node that owns their documents.
package protocol RevisionStore: AnyObject, Sendable {
    /// Applies revisions; those of one document in their order.
    ///
    /// - Returns: An outcome for each.
    func write(_ writes: [RevisionWrite]) async -> [RevisionOutcome]
    /// Removes documents with all their revisions, so that nothing of them stays.
    ///
    /// - Returns: Whether each one existed.
    func purge(_ documents: [[UInt8]]) async -> [Bool]
    /// Runs the sync function on documents again, as the administrator, and writes those whose channels or
    /// grants differ.
    ///
    /// - Parameters:
    ///   - documents: The ids, each once.
    ///   - trial: Runs this function instead, and writes nothing.
    /// - Returns: An outcome for each; nil for documents that do not exist.
    func reassign(_ documents: [[UInt8]], by trial: SyncFunction?) async -> [ReassignmentOutcome?]
}

package struct ReassignmentOutcome: Hashable, Sendable {
    /// Whether channels or grants differ.
    package let isChange: Bool
    /// Why the function refuses a leaf, which then has no channels; nil if it refuses none.
    package let refusal: Refusal?

    package init(isChange: Bool, refusal: Refusal?) {
        self.isChange = isChange
        self.refusal = refusal
    }
}

/// A revision with its author, whose claims the sync function checks.
package struct RevisionWrite: Sendable {
    package let document: [UInt8]
    package let request: RevisionRequest
    /// Nil for the administrator.
    package let author: RevisionAuthor?
    /// When the document expires; a sync function may change it.
    package var expiry: DocumentExpiry?

    package init(
        _ request: RevisionRequest,
        to document: [UInt8],
        by author: RevisionAuthor?,
        expiry: DocumentExpiry? = nil
    ) {
        self.document = document
        self.request = request
        self.author = author
        self.expiry = expiry
    }
}

/// The user who writes a revision.
package struct RevisionAuthor: Sendable {
    /// The user of the claims.
    package let user: SyncUser
    /// The third argument of the sync function, as JSON.
    package let context: [UInt8]

    package init(_ user: SyncUser, context: [UInt8]) {
        self.user = user
        self.context = context
    }
}

package enum RevisionOutcome: Hashable, Sendable {
    case refused(Refusal)
    /// The revision is stored, now or before.
    case stored(RevisionID)
}

/// Reads documents and the bodies of their revisions.
package protocol RevisionReads: AnyObject, Sendable {
    /// - Returns: The documents in the order of their ids; nil for those that do not exist.
    func documents(_ ids: [[UInt8]]) async -> [StoredDocument?]
    /// Bodies that are not in their document: those of large losing leaves, and of replaced revisions.
    ///
    /// - Returns: Nil for those that are not kept.
    func bodies(_ names: [RevisionName]) async -> [RevisionBody?]
}

package struct RevisionName: Hashable, Sendable {
    package let document: [UInt8]
    package let revision: RevisionID

    package init(_ revision: RevisionID, of document: [UInt8]) {
        self.document = document
        self.revision = revision
    }
}

/// Reads the order of changes, by channel, and the grants of documents.
package protocol ChannelReads: AnyObject, Sendable {
    /// Everything up to this sequence is complete.
    var newest: UInt64 { get }
    /// When principals changed, and what documents grant to them.
    var accessVersions: AccessVersions { get }
    /// The next rows of a feed; those of named documents if `documents` is not nil.
    func page(_ request: FeedRequest, of scope: FeedScope, documents: [[UInt8]]?) async -> FeedPage
    /// The first ids of documents, also deleted ones, that are not below `first`.
    func ids(from first: [UInt8], atMost count: Int) async -> [[UInt8]]
    /// The last ids of documents, also deleted ones, that are below `bound`, in descending order; nil is above all
    /// ids.
    func ids(below bound: [UInt8]?, atMost count: Int) async -> [[UInt8]]
    /// An index that has at least the grants of documents to `key`, and to all roles.
    func grants(to key: PrincipalKey) async -> GrantIndex
    /// Calls `wake` on the lane once, at the next change of one of the topics.
    func listen(
        to topics: Set<Subscriptions.Topic>,
        _ wake: @escaping @Sendable () -> Void
    ) -> any ChangeListener
}

/// Lasts until it is cancelled.
package protocol ChangeListener: AnyObject, Sendable {
    /// Replaces the topics; the next change of one of them wakes again.
    func listen(to topics: Set<Subscriptions.Topic>)
    func cancel()
}

/// Reads and writes the contents of attachments.
package protocol Blobs: AnyObject, Sendable {
    /// Stores a content before the document that names it.
    ///
    /// - Throws: `Refusal` 507 if there is no room.
    func store(_ bytes: [UInt8], digest: String) async throws(Refusal)
    /// The number of bytes; nil if the blob is not stored.
    func count(of digest: String) async -> Int?
    /// Bytes of a blob; nil if it is not stored.
    func read(_ digest: String, _ range: Range<Int>) async -> [UInt8]?
}

/// Reads and writes small documents beside the synchronised ones: principals, sessions, checkpoints.
package protocol SideDocumentStore: AnyObject, Sendable {
    func get(_ key: String) async -> SideDocument?
    /// Writes a document if its version is still `version`; 0 for one that does not exist.
    ///
    /// - Returns: The written document; nil if it has another version.
    /// - Throws: `Refusal` 507 if there is no room.
    func put(
        _ content: SideContent,
        at key: String,
        replacing version: UInt64
    ) async throws(Refusal) -> SideDocument?
    /// - Returns: Whether the document had this version, and is removed.
    func remove(_ key: String, version: UInt64) async -> Bool
    /// In the order of their bytes.
    func keys(withPrefix prefix: String) async -> [String]
}

package struct SideDocument: Hashable, Sendable {
    package let bytes: [UInt8]
    /// Differs between any two writes of the key; never 0.
    package let version: UInt64

    package init(_ bytes: [UInt8], version: UInt64) {
        self.bytes = bytes
        self.version = version
    }
}

package enum SideContent: Sendable {
    /// `expires` is in seconds since 1970; 0 for never.
    case plain([UInt8], expires: UInt64 = 0)
    /// A principal, which has a row in feeds: its bytes depend on the sequence of the row.
    case numbered(PrincipalKey, @Sendable (UInt64) -> [UInt8])
}
