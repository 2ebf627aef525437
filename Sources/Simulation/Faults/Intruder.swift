internal import Bytes
internal import ClusterService
internal import Credentials
internal import Orchestration
internal import Seams
internal import SimulatedPlatform
internal import Vocabulary
internal import Wire

/// A machine with copies of the data directories of members and of removed nodes, and a user without
/// permissions: what it tries changes nothing.
///
/// - Identity: no node accepts a key that its own state does not have for the number that is claimed.
/// - Removal: no node leaves the cluster because a process without a member's key says that it was removed.
/// - Token: a token adds a node once.
/// - Permission: no command is applied whose login may not order it.
/// - Secret: the secret that the members share is sealed to them alone, and is not one that a removed node
///   knew.
///
/// One seed in four has one; the workload `intruder` has it in each seed.
final class Intruder {
    private static let second: UInt64 = 1_000_000_000
    private static let user = "guest"

    /// The keys and the sealed secret in the data directory of a member.
    private struct Copy {
        var proof: PeerIdentityProof
        var secret: [UInt8]?
    }

    private let cluster: SimulatedCluster
    private let verifier: Verifier
    private var dice: SeededRandom
    private var environment: Environment?
    /// By public key.
    private var copies: [[UInt8]: Copy] = [:]
    /// The UUIDs of members, by address.
    private var members: [String: String] = [:]
    private var left: Set<String> = []
    /// The last token of each node, by its name, and those that have added it.
    private var tokens: [String: String] = [:]
    private var used: [String: String] = [:]
    private var isOver = false
    private(set) var tally = Tally()

    /// - Returns: Nil if the seed has none.
    init?(_ cluster: SimulatedCluster, _ verifier: Verifier, plan: SimulationPlan) {
        guard plan.workload == "intruder" || plan.workload == "standard" && plan.seed % 4 == 2
        else {
            return nil
        }
        self.cluster = cluster
        self.verifier = verifier
        dice = SeededRandom(seed: plan.seed ^ 0x696e_7472_7564_6572)
    }

    func start() {
        environment = cluster.world.addHost("10.0.2.1", reactors: 1).start(tracing: .error)
        let form = FormParameters([("password", "guessed"), ("roles", "ro_admin")])
        if let node = cluster.reachableNode {
            cluster.submit(node, "a user without permissions") { service in
                try await service.users.put(Intruder.user, form, by: SimulatedCluster.user)
                return "done"
            }
        }
        next()
    }

    func end() { isOver = true }

    private func next() {
        cluster.world.after(200_000_000 + dice.next() % Self.second) { [weak self] in
            guard let self, !isOver else { return }
            observe()
            switch pick(5) {
            case 0: order()
            case 1: answerForAnother()
            case 2: addAgain()
            default: connect()
            }
            next()
        }
    }

    private func pick(_ count: Int) -> Int { Int(dice.next() % UInt64(count)) }

    private func pickOne<Element>(_ elements: [Element]) -> Element? {
        elements.isEmpty ? nil : elements[pick(elements.count)]
    }

    /// Copies the directories, and notes what has left the cluster.
    private func observe() {
        for node in cluster.nodes where node.isServing {
            guard let service = node.service else { continue }
            let state = service.state
            if state.isProvisioned {
                let proof = service.cluster.copiedIdentity
                let key = proof.keys.publicKey
                let box = state.secret.sealed(to: proof.claim.node)
                copies[key] = Copy(proof: proof, secret: box ?? copies[key]?.secret)
                members[node.address] = proof.claim.nodeUUID
                used[node.name] = tokens[node.name] ?? used[node.name]
            } else {
                if let uuid = members[node.address] { left.insert(uuid) }
                tokens[node.name] = service.cluster.initToken.text ?? tokens[node.name]
                if let token = tokens[node.name], token == used[node.name] {
                    verifier.reportFlaw(
                        "Token: \(node.address) left its cluster and has its old token"
                    )
                }
            }
        }
    }

    // MARK: What it tries

    /// Connects with a copied key: under the number of its node if that was removed, or of another member.
    private func connect() {
        let keys = copies.keys.sorted { $0.lexicographicallyPrecedes($1) }
        guard let environment, let node = pickOne(cluster.nodes.filter(\.isInCluster)),
            let service = node.service, let key = pickOne(keys), let copy = copies[key],
            let own = service.state.node(number: service.thisNode)
        else { return }
        let state = service.state
        var claim = copy.proof.claim
        if pick(2) == 0, let other = pickOne(state.nodes.filter { $0.number != own.number }) {
            claim.node = other.number
            claim.nodeUUID = other.uuid
        }
        guard state.node(number: claim.node)?.keys.identity != key else { return }
        (claim.group, claim.epoch) = (state.groupID, state.revEpoch)
        let transport = PeerTransport(environment: environment)
        transport.setIdentity(PeerIdentityProof(claim: claim, keys: copy.proof.keys))
        let place = PeerAddress(
            host: node.address,
            port: SimulatedNode.peerPort,
            key: own.keys.identity
        )
        transport.setDirectory(PeerDirectory([own.number: place], level: state.featureLevel))
        let asked = pickOne(NodeService.allCases.filter { $0 != .join }) ?? .calls
        tally[.check, "intrusion"] += 1
        let (verifier, claimed) = (verifier, claim.node)
        transport.open(
            asked,
            to: own.number,
            request: [],
            opened: { port in
                if node.service === service {
                    verifier.reportFlaw(
                        "Identity: \(node.address) accepted a foreign key for \(claimed)"
                    )
                }
                port.end(nil)
                return SilentHandler()
            },
            failed: { _ in }
        )
    }

    /// Answers at the address of a node that is down, and says to each caller that it was removed.
    private func answerForAnother() {
        guard let node = pickOne(cluster.nodes.filter { !$0.host.isRunning && $0.isWanted }),
            let state = cluster.newestState,
            let record = state.nodes.first(where: { $0.host == node.address }),
            let key = copies.keys.sorted(by: { $0.lexicographicallyPrecedes($1) })
                .first(where: { $0 != record.keys.identity }), let copy = copies[key]
        else { return }
        node.isWanted = false
        let transport = PeerTransport(environment: node.host.start(tracing: .error))
        let claim = PeerClaim(
            node: record.number,
            nodeUUID: record.uuid,
            clusterUUID: state.uuid ?? "",
            group: state.groupID,
            epoch: state.revEpoch
        )
        transport.setIdentity(PeerIdentityProof(claim: claim, keys: copy.proof.keys))
        transport.setDirectory(PeerDirectory([:], highestGiven: NodeNumber(.max)))
        for service in NodeService.allCases { transport.serve(service) { _, _ in SilentHandler() } }
        let address = SocketAddress(host: node.address, port: SimulatedNode.peerPort)
        do throws(NetworkError) {
            _ = try transport.listen(on: address)
            tally[.check, "impersonation"] += 1
        } catch {
            verifier.reportFlaw("Intruder: \(error)")
        }
        cluster.world.after(1_500_000_000) {
            node.host.exit()
            node.isWanted = true
            node.start()
        }
    }

    /// Adds a node that has left the cluster by the token that added it before.
    private func addAgain() {
        let waiting = cluster.nodes.filter {
            $0.isServing && !$0.isInCluster && used[$0.name] != nil
        }
        guard let node = pickOne(waiting), let token = used[node.name],
            let member = cluster.reachableNode
        else { return }
        tally[.check, "usedToken"] += 1
        let (name, verifier) = (node.name, verifier)
        cluster.submit(member, "add \(name) by a used token") { service in
            let added = try await service.membership.addNode(
                name,
                token: token,
                services: ["kv"],
                by: SimulatedCluster.user
            )
            verifier.reportFlaw("Token: a used token has added \(name)")
            return added
        }
    }

    /// Has a node propose what its login may not order.
    private func order() {
        guard let node = pickOne(cluster.nodes.filter { $0.isInCluster && !$0.host.isFrozen }),
            let active = node.service?.state.activeNodes.last
        else { return }
        let password = UserChange.Password(credentials: [1], changedSeconds: 1)
        let roles = Grants([RoleGrant(.admin)])
        let commands: [ClusterCommand] = [
            .setAdministrator(Administrator(name: "eve", credentials: [1])),
            .putUser(UserChange(id: "eve", name: "", roles: roles, password: password)),
            .deleteUser(id: Intruder.user),
            .failOver(FailoverStep(nodes: [active.number], isAutomatic: false, mayLose: true)),
        ]
        let command = commands[pick(commands.count)]
        let login = pick(3) == 0 ? nil : Intruder.user
        tally[.check, "forgedOrder"] += 1
        let verifier = verifier
        cluster.submit(node, "an order without a permission") { service in
            do throws(ClusterError) {
                let outcome = try await service.cluster.propose(command, by: login)
                if case .done = outcome {
                    verifier.reportFlaw("Permission: applied without one: \(command)")
                }
                return "\(outcome)"
            } catch {
                return error.description
            }
        }
    }

    // MARK: The end

    /// Checks the state after all faults are over and the cluster has settled.
    func conclude() {
        let isSealed = cluster.waitUntil(seconds: 20) {
            cluster.newestState.map { $0.secret.isFor($0.members) } ?? false
        }
        guard let state = cluster.newestState else { return }
        if !isSealed { verifier.reportFlaw("Secret: it is not sealed to the members alone") }
        if state.user("eve") != nil || state.administrator?.name != SimulatedCluster.user {
            verifier.reportFlaw("Permission: a command without one was applied")
        }
        for node in state.members where left.contains(node.uuid) {
            verifier.reportFlaw("Removal: \(node.host) left the cluster, which has not removed it")
        }
        observe()
        let present = Set(state.members.map(\.keys.identity))
        let secrets = copies.mapValues { copy in
            copy.secret.flatMap(NodeSecrets(seed: copy.proof.keys.privateKey).open)
                .map { Array($0.prefix(NodeSecrets.seedByteCount)) }
        }
        let now = Set(secrets.filter { present.contains($0.key) }.compactMap(\.value))
        for (key, known) in secrets where !present.contains(key) {
            tally[.check, "checkedSecret"] += 1
            if let known, now.contains(known) {
                verifier.reportFlaw("Secret: a removed node knows the present one")
            }
        }
    }
}

/// Receives nothing and sends nothing.
private final class SilentHandler: StreamHandler {
    func receive(_ message: ByteView) -> StreamReception { .handled }
    func send(_ output: any StreamOutput) -> StreamProgress { .asleep }
    func closed(_ reason: String?) {}
}
