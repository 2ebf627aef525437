package import ClusterService
package import Orchestration
package import Vocabulary

/// The design documents of the cluster's buckets, as their routes need them.
///
/// The routes have checked that the bucket exists. Names are without `_design/`, not empty, and
/// otherwise unchecked; those of development documents begin with `dev_`.
package protocol DesignDocumentPlane: Sendable {
    /// All design documents of a bucket, sorted by name; nil if the bucket no longer exists.
    func documents(ofBucket bucket: String) -> [DesignDocument]?
    /// Nil also for a document that was deleted: the state has no tombstones.
    func document(_ name: String, ofBucket bucket: String) -> DesignDocument?
    /// Creates or replaces a document.
    ///
    /// - Parameters:
    ///   - name: The document's name.
    ///   - body: The request's body, of at most 1 MiB, not checked in any way.
    ///   - bucket: The bucket.
    ///   - precondition: The revision that the document must have.
    /// - Returns: The document, after this node applied the change.
    /// - Throws: `AdministrationError` if nothing was changed, or the outcome is unknown.
    func putDesignDocument(
        _ name: String,
        body: [UInt8],
        inBucket bucket: String,
        precondition: Precondition<String>
    ) async throws(AdministrationError) -> DesignDocument
    /// Deletes a document.
    ///
    /// - Throws: As `putDesignDocument`.
    func deleteDesignDocument(
        _ name: String,
        inBucket bucket: String,
        precondition: Precondition<String>
    ) async throws(AdministrationError)
    /// Begins to compact the indexes of a document on all nodes.
    ///
    /// - Throws: `AdministrationError` if the document does not exist, or a node cannot compact.
    func compactViews(
        ofDesignDocument name: String,
        inBucket bucket: String
    ) async throws(AdministrationError)
    /// Cancels the compaction of a document's indexes; no error if there is none.
    ///
    /// - Throws: `AdministrationError` if the document does not exist.
    func cancelViewCompaction(
        ofDesignDocument name: String,
        inBucket bucket: String
    ) async throws(AdministrationError)
    /// Changes the `options` of a document: from how many changes on an index is updated without a
    /// query; nil leaves one unchanged.
    ///
    /// - Throws: As `putDesignDocument`.
    func setUpdateMinChanges(
        ofDesignDocument name: String,
        inBucket bucket: String,
        updateMinChanges: Int?,
        replicaUpdateMinChanges: Int?
    ) async throws(AdministrationError) -> DesignDocument
}

extension DesignDocumentService: DesignDocumentPlane {}

/// A parameter of a view query: the name decoded, the value decoded but not interpreted.
package struct ViewParameter: Hashable, Sendable {
    package enum Value: Hashable, Sendable {
        /// The value in the query string: JSON text for keys, plain text for all others, possibly
        /// with white space around it.
        case text(String)
        /// The value in the request's body: one valid JSON value without white space around it.
        case json([UInt8])
    }

    package let name: String
    package let value: Value

    package init(name: String, value: Value) {
        self.name = name
        self.value = value
    }
}

/// A view query as a client sent it.
package struct ViewRequest: Sendable {
    package let bucket: String
    /// The name without `_design/`.
    package let designDocument: String
    package let view: String
    /// The parameters in the order sent, those of the query string first; of several with a name
    /// the last one counts.
    package let parameters: [ViewParameter]

    package init(
        bucket: String,
        designDocument: String,
        view: String,
        parameters: [ViewParameter]
    ) {
        self.bucket = bucket
        self.designDocument = designDocument
        self.view = view
        self.parameters = parameters
    }
}

/// The refusal of a view query: status, a word for programs, and a sentence for users.
package struct ViewRefusal: Error, Hashable {
    package let status: Int
    /// For example `query_parse_error`, `not_found`.
    package let error: String
    package let reason: String
    /// After how many seconds the client may retry; nil if a retry is pointless.
    package let retryAfterSeconds: Int?

    package init(status: Int, error: String, reason: String, retryAfterSeconds: Int? = nil) {
        self.status = status
        self.error = error
        self.reason = reason
        self.retryAfterSeconds = retryAfterSeconds
    }
}

/// The result of a view query before its first byte is sent.
package enum ViewQueryOutcome: Sendable {
    case refused(ViewRefusal)
    /// The response has begun: status 200, whatever happens later.
    case rows(any ViewRows)
    /// The whole response: it is short, complete and without errors.
    case whole([UInt8])
}

/// How far a view query came on the thread that began it.
package enum ViewQueryBeginning: Sendable {
    case refused(ViewRefusal)
    /// The whole response, as in `ViewQueryOutcome`.
    case whole([UInt8])
    /// The query has begun, and its outcome must be awaited.
    case begun(any BegunViewQuery)
    /// Something must be awaited before the query can begin: call `begin`.
    case mustWait
}

/// A view query that has begun; it ends with the last reference to it, unless its outcome has rows.
package protocol BegunViewQuery: AnyObject, Sendable {
    /// Waits for the first part of the query's response; called at most once.
    func outcome() async -> ViewQueryOutcome
}

/// A part of a view query's response.
package enum ViewRowsPart: Sendable {
    /// The next bytes of the response's JSON, sent as they are; about 64 KiB.
    case bytes([UInt8])
    /// The response is complete.
    ///
    /// `isPartial` adds the trailer field `X-View-Partial: 1`: some rows are missing, and the
    /// JSON's `errors` say why.
    case end(isPartial: Bool)
}

/// The rows of one query, requested part by part.
///
/// Every call of `next` is the credit for one part: it comes when the client's connection can accept
/// more bytes, so nothing is queued for a slow client beyond that part and 64 KiB.
package protocol ViewRows: Sendable {
    /// Waits for the next part; called by one caller at a time, and not after `.end`.
    ///
    /// If the calling task is cancelled, the node stops: return or throw soon.
    ///
    /// - Throws: An error after which no valid response is possible. The connection is closed before
    ///   the end of the body, so that the client notices.
    func next() async throws -> ViewRowsPart
    /// Releases the query's snapshots and memory; called once, from any thread, also after `.end`.
    func cancel()
}

/// Carries out view queries.
package protocol ViewQueries: Sendable {
    /// Plans a query and waits for the first part of its response.
    ///
    /// The route has checked that the bucket exists in this node's state. Whether the design
    /// document is current is checked here.
    func begin(_ request: ViewRequest) async -> ViewQueryOutcome
    /// Plans a query and begins it on the calling thread, an event loop: it reads few rows and waits for
    /// nothing.
    ///
    /// The route has checked the same as for `begin`, and the outcome is the same.
    func beginNow(_ request: ViewRequest) -> ViewQueryBeginning
}
