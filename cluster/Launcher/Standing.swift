/// The state of a running node in its cluster, as the node reports it.
enum Standing {
    /// A member that serves, with the current state of its cluster.
    case active
    /// A member that was failed over or has no vBuckets yet, or one that reaches no leader.
    case behind
    /// It has no cluster.
    case alone

    private struct Pool: Decodable {
        let nodes: [Topology.Member]
    }

    init(asking admin: AdminClient) throws {
        guard try admin.hasCluster else {
            self = .alone
            return
        }
        let reply = try admin.request("GET", "/pools/default")
        guard reply.status != 404 else {
            // It left the cluster between the two requests.
            self = .alone
            return
        }
        let own = try reply.json(Pool.self).nodes.first { $0.thisNode == true }
        self = own?.isActive == true && !reply.isStale ? .active : .behind
    }
}

extension RememberedCluster {
    /// The admin port of a running node that has the current state of the cluster.
    ///
    /// A node that was down has an old state until another node updates it, and a node that was
    /// removed has none: such a node is used only if no better one answers.
    ///
    /// - Parameters:
    ///   - credentials: The administrator's login.
    ///   - except: The number of a node to leave out.
    ///   - leaderTimeoutSeconds: How long to wait for a leader.
    /// - Returns: A client of that node's admin port.
    /// - Throws: `Refusal` if no node runs; the last failure if none of them answers.
    func admin(
        _ credentials: Credentials,
        except: Int? = nil,
        leaderTimeoutSeconds: Double
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
        let deadline = Deadline(seconds: leaderTimeoutSeconds)
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
            // A node without a cluster accepts any password, and is not the one to ask instead.
            if behind == nil, let refusal = failure as? Refusal, refusal.isOfLogin { throw refusal }
            // If no node has a cluster, there is none to wait for.
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

    /// The topology as such a node knows it, once a leader is found.
    func topology(except: Int? = nil) throws -> Topology {
        let admin = try admin(
            Credentials(),
            except: except,
            leaderTimeoutSeconds: Starter.leaderTimeoutSeconds
        )
        return Topology(admin: admin)
    }

    /// The timeout of one request, so that a frozen node delays a command by no more.
    private static let questionSeconds = 3
}
