internal import ClusterService
internal import JSON
package import Seams
internal import Vocabulary

/// The identity of the node of a data directory as a line of JSON, for operators and the launcher.
package struct DirectoryIdentity {
    private let disk: any Disk

    package init(disk: any Disk) {
        self.disk = disk
    }

    /// The line, with its newline: the UUIDs of node and cluster, the node's number, and the epoch.
    ///
    /// A node without a cluster has null for it. The cluster's secret is not in the line.
    ///
    /// - Throws: `NodeError` if the directory is not that of a node, or cannot be read.
    package func line(of directory: String) throws(NodeError) -> [UInt8] {
        let identity: StoredIdentity?
        do throws(ClusterError) {
            identity = try StoredIdentity(directory: directory, disk: disk)
        } catch {
            throw NodeError(error.description)
        }
        guard let identity else { throw NodeError("No node has used the directory \(directory)") }
        let line = JSONWriter.text { json in
            json.object { json in
                json.name("cluster")
                if let cluster = identity.clusterUUID { json.value(cluster) } else { json.null() }
                json.member("epoch", identity.epoch)
                json.member("node", identity.number.value)
                json.member("uuid", identity.nodeUUID)
            }
        }
        return line + [0x0a]
    }
}
