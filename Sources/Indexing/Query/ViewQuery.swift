package import Bytes

/// A query of a view as its client stated it: checked, with every default explicit.
///
/// `ViewQuery(parameters:body:hasReduce:encode:)` makes it from a request and refuses what has no
/// meaning; `QueryPlan` makes of it what nodes do.
///
/// - Keys are sort keys, whose bytes are in the order of the keys. One that is longer than any row's has its
///   first bytes only (`Collation.appendBound`).
package struct ViewQuery: Equatable, Sendable {
    package var selection = RowSelection()
    package var isDescending = false
    package var skip = 0
    /// Nil: all rows.
    package var limit: Int?
    package var reduction = Reduction.none
    package var freshness = Freshness.updateAfter
    package var failurePolicy = FailurePolicy.continueRows
    package var includesDocuments = false
    package var isDebug = false
    /// Of a development view: whether all documents are wanted, not a sample of them.
    package var usesFullSet = false
    /// The time in which all nodes must begin to answer.
    package var timeoutMilliseconds = ViewQuery.timeoutMillisecondsDefault

    /// Couchbase's default.
    package static let timeoutMillisecondsDefault = 60_000
    /// The default of a query whose freshness is `current`, which waits for the build of an index.
    ///
    /// A late answer is a success with `errors`. Sync Gateway and many applications do not read these, so
    /// they would continue with missing rows. They time out themselves after 75 s, which is an error, and
    /// retry. So the answer must come clearly after that, but not much later: a query whose client has
    /// left without closing its connection holds a slot until then.
    package static let currentTimeoutMillisecondsDefault = 90_000

    package init() {}

    /// The rows that a query selects, before `skip` and `limit`.
    package struct RowSelection: Equatable, Sendable {
        /// Nil: from the first row of the query's direction.
        package var startKey: [UInt8]?
        /// Nil: to the last row of the query's direction.
        package var endKey: [UInt8]?
        /// Among the rows of the start key, the document to start with.
        package var startDocumentID: [UInt8]?
        /// Among the rows of the end key, the document to end with.
        package var endDocumentID: [UInt8]?
        package var includesEnd = true
        /// The rows of these keys instead of a range, in this order, a key as often as it is here.
        package var keys: [[UInt8]]?

        package init() {}
    }

    /// The reduction of the selected rows.
    package enum Reduction: Equatable, Sendable {
        /// The rows themselves.
        case none
        /// One value for all of them.
        case all
        /// One value for each group of keys with equal first elements; nil: of equal keys.
        case groups(level: Int?)
    }

    /// The freshness that a query requires of the index: the parameter `stale`.
    package enum Freshness: UInt8, Sendable {
        /// `ok`: the index as it is.
        case any = 0
        /// `update_after`: the index as it is; it is updated afterwards.
        case updateAfter = 1
        /// `false`: every change that was visible when the query arrived.
        case current = 2
    }

    /// The effect of missing rows of some vBuckets on the other rows: the parameter `on_error`.
    package enum FailurePolicy: UInt8, Sendable {
        /// `continue`: the other rows follow.
        case continueRows = 0
        /// `stop`: no row follows.
        case stopRows = 1
    }
}

extension ViewQuery.Reduction: Coded {
    package func write(to writer: inout FieldWriter) {
        switch self {
        case .none: writer.kind(0)
        case .all: writer.kind(1)
        case .groups(let level): writer.kind(2, level ?? 0)
        }
    }

    package init(from reader: inout FieldReader) throws(CodingFailure) {
        switch try reader.kind("reduction") {
        case 0: self = .none
        case 1: self = .all
        case 2:
            let level: Int = try reader.payload()
            self = .groups(level: level == 0 ? nil : level)
        case let kind: throw reader.failure(.unknownKind(kind))
        }
    }
}
