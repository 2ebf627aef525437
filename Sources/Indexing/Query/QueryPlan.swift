package import Bytes

/// The plan of a query: each responder's scan, and the coordinator's merge of the rows.
///
/// `skip` and `limit` count rows of all nodes, so only the coordinator can apply them. A responder
/// stops after as many rows as both together need; that makes a great `skip` expensive, and pages
/// by `startkey` cheap.
package struct QueryPlan: Equatable, Sendable {
    package private(set) var scan: ScanPlan
    package let merge: MergePlan
    package let freshness: ViewQuery.Freshness
    package let includesDocuments: Bool
    package let isDebug: Bool
    package let timeoutMilliseconds: Int

    package init(_ query: ViewQuery) {
        scan = ScanPlan(query)
        merge = MergePlan(query)
        freshness = query.freshness
        includesDocuments = query.includesDocuments
        isDebug = query.isDebug
        timeoutMilliseconds = query.timeoutMilliseconds
    }

    /// The plan with the ranges of another one if they are equal, so that both have them in memory once.
    package func sharingRanges(of other: QueryPlan) -> QueryPlan {
        guard scan.ranges == other.scan.ranges else { return self }
        var plan = self
        plan.scan.ranges = other.scan.ranges
        return plan
    }
}

/// The ranges that a responder reads, and the rows or groups that it sends.
package struct ScanPlan: Equatable, Sendable {
    package var reduction = ViewQuery.Reduction.none
    /// The key number of a row is the number of its range here.
    package var ranges: [RowRange] = []
    /// Whether the ranges are those of single keys.
    package var hasKeys = false
    package var isDescending = false
    /// Rows, or groups, after which to stop; nil: none.
    package var rowsMax: Int?

    /// No rows.
    package init() {}

    init(_ query: ViewQuery) {
        reduction = query.reduction
        isDescending = query.isDescending
        hasKeys = query.selection.keys != nil
        ranges = (query.selection.keys ?? []).map { key in
            var selection = query.selection
            selection.startKey = key
            selection.endKey = key
            return RowRange(selection, isDescending: query.isDescending)
        }
        if !hasKeys { ranges = [RowRange(query.selection, isDescending: query.isDescending)] }
        rowsMax = query.limit.map { limit in
            let (sum, isOverflow) = limit.addingReportingOverflow(query.skip)
            return limit == 0 ? 0 : isOverflow ? .max : sum
        }
    }
}

extension ScanPlan: ExtensibleFields {
    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&reduction, "reduction")
        try coder.field(&hasKeys, "keys")
        try coder.field(&isDescending, "direction")
        // A number follows the flag also if there is no limit.
        var (isLimited, limit) = (rowsMax != nil, rowsMax ?? 0)
        try coder.field(&isLimited, "limit")
        try coder.field(&limit, "limit")
        rowsMax = isLimited ? limit : nil
        try coder.field(&ranges, "ranges")
    }
}

/// How the coordinator combines the rows of the responders.
package struct MergePlan: Equatable, Sendable {
    package var isDescending: Bool
    /// Whether rows are groups, whose partial values are reduced again.
    package var isGrouped: Bool
    package var skip: Int
    /// Nil: all rows.
    package var limit: Int?
    package var failurePolicy: ViewQuery.FailurePolicy

    package init(_ query: ViewQuery) {
        isDescending = query.isDescending
        isGrouped = query.reduction != .none
        skip = query.skip
        limit = query.limit
        failurePolicy = query.failurePolicy
    }
}
