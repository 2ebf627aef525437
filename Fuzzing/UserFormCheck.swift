import Bytes
import Credentials
import Orchestration
import TestWorld
import Vocabulary

/// Forms of users against a state with a bucket and a user.
enum UserFormCheck {
    private static let state = madeState()

    /// - Parameters:
    ///   - id: The user's id, from the path of the request.
    ///   - fields: The form: `name=value`, one a line.
    static func run(id: String, _ fields: ArraySlice<Substring>) {
        let pairs = fields.map { field in
            let parts = field.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            return (name: String(parts[0]), value: parts.count > 1 ? String(parts[1]) : "")
        }
        let form = UserForm(FormParameters(pairs), id: id, state: state)
        require(form.errors.allSatisfy { !$0.text.isEmpty }, "a refusal has a sentence")
        guard form.errors.isEmpty else { return }
        require(
            form.roles.roles.allSatisfy { $0.bucket == nil || $0.bucket == "b" },
            "\(form.roles) names a bucket that does not exist"
        )
        apply(
            UserChange(
                id: id,
                name: form.name,
                roles: form.roles,
                password: form.password.map { _ in
                    UserChange.Password(credentials: [1, 2, 3], changedSeconds: 1)
                }
            )
        )
    }

    private static func apply(_ change: UserChange) {
        let envelope = ClusterEnvelope(
            proposer: NodeNumber(1),
            boot: 1,
            number: 0,
            login: "Administrator",
            command: .putUser(change)
        )
        require(
            (try? ClusterEnvelope(decoding: envelope.encoded)) == envelope,
            "the command of a form is not decoded to itself"
        )
        require(state.refusal(of: change) == nil, "the state refuses the user of an accepted form")
        var after = state
        let outcome = after.apply(envelope, at: after.index + 1)
        if case .refused(let refusal) = outcome {
            fatalError("the state refuses the user of an accepted form: \(refusal)")
        }
        require(after.user(change.id)?.roles == change.roles, "the user has the roles of its form")
        require(after.violations(since: state) == [], "\(after.violations(since: state))")
        guard case .state(let read) = ClusterState.decode(after.encoded()) else {
            fatalError("a state with users is not decoded")
        }
        require(read == after, "a state with users is not decoded to itself")
    }

    private static func madeState() -> ClusterState {
        var state = ClusterState(memoryQuota: 1_000 << 20)
        let ports = NodePorts(admin: 9_001, data: 9_002, peer: 9_003)
        let administrator = Administrator(name: "Administrator", credentials: [1])
        var settings = BucketSettings(name: "b", uuid: "b-uuid", quota: 100 << 20)
        settings.replicas = 0
        settings.vBuckets = 64
        guard let chain = NodeChain([NodeNumber(1)]) else { fatalError("a chain of one node") }
        let bucket = NewBucket(
            settings: settings,
            options: BucketOptions(),
            rows: [NodeChain](repeating: chain, count: settings.vBuckets)
        )
        let user = UserChange(
            id: "ann",
            name: "Ann",
            roles: Grants([RoleGrant(.dataReader, bucket: "b")]),
            password: UserChange.Password(credentials: [1], changedSeconds: 1)
        )
        let keys = NodeSecrets(seed: [UInt8](repeating: 1, count: 32)).publicKeys
        let commands: [ClusterCommand] = [
            .addNode(NewNode(uuid: "u", host: "127.0.0.1", ports: ports, keys: keys)),
            .initialise(Initialisation(uuid: "c", groupID: 7, administrator: administrator)),
            .createBucket(bucket),
            .putUser(user),
        ]
        for command in commands {
            let outcome = state.apply(command, at: state.index + 1)
            if case .refused(let refusal) = outcome { fatalError("\(command): \(refusal)") }
        }
        return state
    }
}
