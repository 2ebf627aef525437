package import Vocabulary

/// The nodes from which a node replicates, with the vBuckets of each.
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

    /// The feeds of each node by the bucket's UUID.
    package private(set) var feeds: [NodeNumber: [String: Feed]] = [:]

    package init() {}

    /// Applies the map of one bucket.
    ///
    /// Only a confirmed active copy is followed: until the confirmation the previous chain counts,
    /// and a copy that rolled back to follow the new active copy might be the last with a write.
    ///
    /// - Returns: The nodes whose feeds changed.
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
