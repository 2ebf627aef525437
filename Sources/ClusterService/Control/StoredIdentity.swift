internal import Persistence
package import Seams
package import Vocabulary

/// The identity that a data directory gives its node, read without starting one.
package struct StoredIdentity: Sendable {
    package let nodeUUID: String
    package let number: NodeNumber
    /// Nil for a node without a cluster.
    package let clusterUUID: String?
    /// The epoch of its cluster: one more than the quorum recoveries that the node knows of.
    package let epoch: UInt64

    /// Reads `control.sqlite`, also while a server has it open; nil if no node has used the directory.
    ///
    /// - Throws: `ClusterError` if the file cannot be read, or is damaged.
    package init?(directory: String, disk: any Disk) throws(ClusterError) {
        do throws(StorageError) {
            let bytes = try ControlStore.fact(
                NodeIdentity.fact,
                in: directory,
                disk: disk
            )
            guard let bytes else { return nil }
            guard let identity = NodeIdentity(message: bytes) else {
                throw StorageError(.damaged, "\(directory) has no identity that can be read")
            }
            nodeUUID = identity.nodeUUID
            number = identity.number
            clusterUUID = identity.clusterUUID.isEmpty ? nil : identity.clusterUUID
            epoch = identity.epoch
        } catch {
            throw ClusterError(error)
        }
    }
}
