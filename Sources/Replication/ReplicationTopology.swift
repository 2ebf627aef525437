package import Vocabulary

/// From whom a node gets the changes of which vBuckets.
package struct ReplicationTopology: Hashable, Sendable {
    /// A bucket's vBuckets, each with the fence of the map that says so.
    package struct Feed: Hashable, Sendable {
        package var name: String
        package var uuid: String
        package var vBuckets: [VBucketID: UInt64]

        package init(name: String, uuid: String, vBuckets: [VBucketID: UInt64]) {
            self.name = name
            self.uuid = uuid
            self.vBuckets = vBuckets
        }
    }

    /// By node, then by the bucket's UUID.
    package private(set) var feeds: [NodeNumber: [String: Feed]] = [:]

    package init() {}

    /// Takes up what a map says of one bucket.
    ///
    /// Only an active copy that is confirmed is followed: before that the chain of before counts,
    /// and who went back behind it for the sake of the new one might be the last to have a write.
    ///
    /// - Returns: The nodes of which something else is wanted than before.
    package mutating func update(
        _ assignment: BucketAssignment,
        own: NodeNumber
    ) -> Set<NodeNumber> {
        var fresh: [NodeNumber: [VBucketID: UInt64]] = [:]
        for (number, vBucket) in assignment.vBuckets.enumerated() {
            guard case .replica = vBucket.role(of: own), vBucket.isConfirmed,
                let source = vBucket.chain.first
            else { continue }
            fresh[source, default: [:]][VBucketID(UInt16(number))] = vBucket.fence
        }
        return replace(assignment.uuid) { node in
            fresh[node].map { Feed(name: assignment.name, uuid: assignment.uuid, vBuckets: $0) }
        } also: {
            Set(fresh.keys)
        }
    }

    /// Forgets a bucket.
    package mutating func remove(bucket uuid: String) -> Set<NodeNumber> {
        replace(uuid) { _ in
            nil
        } also: {
            []
        }
    }

    private mutating func replace(
        _ uuid: String,
        with feed: (NodeNumber) -> Feed?,
        also others: () -> Set<NodeNumber>
    ) -> Set<NodeNumber> {
        var changed: Set<NodeNumber> = []
        for node in others().union(feeds.keys) {
            let new = feed(node)
            guard feeds[node]?[uuid] != new else { continue }
            feeds[node, default: [:]][uuid] = new
            if feeds[node]?.isEmpty == true { feeds[node] = nil }
            changed.insert(node)
        }
        return changed
    }
}
