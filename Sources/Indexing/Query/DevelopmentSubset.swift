package import Vocabulary

/// The part of a large bucket from which a development view is answered: one vBucket.
///
/// It is the first vBucket with an active copy, so every node chooses the same one by the same map,
/// and a rebalance does not change it. Of a small bucket all vBuckets are read, as Couchbase Server
/// does: one vBucket would have too few documents to develop a function with.
package enum DevelopmentSubset {
    /// A bucket with more documents than this for each vBucket is answered from one vBucket.
    package static let documentsPerVBucketMax: UInt64 = 20

    /// Decides whether a query is answered from the subset.
    ///
    /// - Parameters:
    ///   - isDevelopment: Whether the design document is a development one.
    ///   - usesFullSet: Whether the query requires all documents (`full_set=true`).
    ///   - documents: The documents of the bucket on all nodes, as far as they are known.
    ///   - vBuckets: The number of the bucket's vBuckets.
    /// - Returns: Whether it is.
    package static func applies(
        isDevelopment: Bool,
        usesFullSet: Bool,
        documents: @autoclosure () -> UInt64,
        vBuckets: Int
    ) -> Bool {
        isDevelopment && !usesFullSet
            && documents() > UInt64(max(0, vBuckets)) * documentsPerVBucketMax
    }
}

extension QueryCoordination.ServingMap {
    /// The vBucket of a development view's subset; nil if no vBucket has an active copy.
    package var subset: VBucketID? {
        actives.firstIndex { $0 != nil }.map { VBucketID(UInt16($0)) }
    }
}
