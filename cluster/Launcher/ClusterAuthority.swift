internal import Foundation
internal import OpenSSLPlatform
internal import Seams

/// The cluster's certificate authority, stored beside the nodes: a client needs nothing else to connect
/// with TLS.
struct ClusterAuthority {
    let file: String
    /// Believes the nodes of the cluster.
    let trust: any ServerTrust

    private static let attempts = 100

    /// Stores the certificate of the cluster's authority in the cluster's directory.
    ///
    /// The cluster makes it moments after its first start.
    ///
    /// - Throws: `Refusal` if there is none after 10 seconds; errors of the file.
    static func store(
        of cluster: RememberedCluster,
        _ credentials: Credentials
    ) throws -> ClusterAuthority {
        guard let node = cluster.runningNodes.first else { throw Refusal("No node runs.") }
        let admin = AdminClient(port: node.ports.admin, credentials: credentials)
        for _ in 0..<attempts {
            let reply = try admin.request("GET", "/pools/default/certificate")
            if reply.status == 200 {
                let file = cluster.directory + "/ca.pem"
                try Data(reply.body).write(to: URL(fileURLWithPath: file), options: .atomic)
                let trust = try TLSClient(authorities: [UInt8](reply.body))
                return ClusterAuthority(file: file, trust: trust)
            }
            Thread.sleep(forTimeInterval: 0.1)
        }
        throw Refusal(
            "The cluster has no certificate authority after 10 seconds.",
            cure: "Look into the log of node \(node.index): cluster/logs \(node.index)"
        )
    }
}
