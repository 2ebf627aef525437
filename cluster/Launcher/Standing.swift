internal import Foundation

/// What a running node is to the cluster, by its own word.
enum Standing {
    /// A member that serves, and knows what its cluster has agreed on.
    case active
    /// A member that was failed over or has no share yet, or one that reaches nobody who leads.
    case behind
    /// It belongs to nobody.
    case alone

    private struct Pools: Decodable {
        struct Pool: Decodable {
            let name: String
        }

        let pools: [Pool]
    }

    private struct Pool: Decodable {
        let nodes: [Topology.Member]
    }

    init(asking admin: AdminClient) throws {
        guard try !admin.require("GET", "/pools").json(Pools.self).pools.isEmpty else {
            self = .alone
            return
        }
        let reply = try admin.request("GET", "/pools/default")
        guard reply.status != 404 else {
            // It left between the two questions.
            self = .alone
            return
        }
        let own = try reply.json(Pool.self).nodes.first { $0.thisNode == true }
        self = own?.isActive == true && !reply.isStale ? .active : .behind
    }
}

extension RememberedCluster {
    /// A running node that speaks for the cluster.
    ///
    /// One that was down while the cluster went on knows an old one until the others tell it, and one
    /// that was taken out knows none: neither is asked where another runs, nor is one that does not
    /// answer.
    ///
    /// - Parameters:
    ///   - credentials: The administrator's.
    ///   - except: A node that is not asked.
    ///   - patience: How many seconds somebody may take to lead.
    /// - Returns: Its admin port.
    /// - Throws: A `Refusal` where none runs, or why none that does answered.
    func admin(
        _ credentials: Credentials,
        except: Int? = nil,
        patience: Double
    ) throws -> AdminClient {
        let clients = runningNodes.filter { $0.index != except }.map {
            AdminClient(
                port: $0.ports.admin,
                credentials: credentials,
                timeoutSeconds: RememberedCluster.questionSeconds
            )
        }
        guard !clients.isEmpty else {
            throw Refusal("No other node runs.", cure: "cluster/start starts all of them.")
        }
        let deadline = Deadline(seconds: patience)
        while true {
            var others: [(standing: Standing, client: AdminClient)] = []
            var failure: (any Error)?
            for client in clients {
                do {
                    let standing = try Standing(asking: client)
                    if standing == .active { return client.patient }
                    others.append((standing, client))
                } catch {
                    failure = error
                }
            }
            let behind = others.first { $0.standing == .behind }
            // Where nobody is in a cluster, none is to be waited for.
            if failure == nil, behind == nil, let alone = others.first {
                return alone.client.patient
            }
            guard !deadline.hasPassed else {
                if let other = behind ?? others.first { return other.client.patient }
                throw failure ?? Refusal("No node of the cluster answers.")
            }
            pause(milliseconds: 20)
        }
    }

    /// A node that stands still costs whoever asks all of them no more than that.
    private static let questionSeconds = 3
}
