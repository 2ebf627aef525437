import Orchestration
import Testing
import Vocabulary

/// A cluster state for tests: assigns indexes to commands, and checks the invariants after each.
struct ClusterWorld {
    var state = ClusterState(memoryQuota: 1_000 << 20)
    var index: UInt64 = 0

    /// No node yet.
    init() {}

    /// As many active nodes as asked for, provisioned.
    init(nodes: Int) {
        for number in 1...nodes {
            apply(.addNode(Self.node(number)))
            if number > 1 {
                apply(.setNodeState(.init(number: n(number), membership: .inactiveAdded)))
            }
        }
        let administrator = Administrator(name: "Administrator", credentials: [1, 2, 3])
        apply(.initialise(Initialisation(uuid: "cc", groupID: 7, administrator: administrator)))
        guard nodes > 1 else { return }
        rebalance("start", kept: (1...nodes).map(n))
        end("start")
    }

    static func node(_ number: Int) -> NewNode {
        let port = UInt16(9_000 + 10 * number)
        let ports = NodePorts(admin: port, data: port + 1, peer: port + 2)
        return NewNode(
            uuid: "u\(number)",
            host: "127.0.0.1",
            ports: ports,
            keys: .sample(UInt8(truncatingIfNeeded: number))
        )
    }

    @discardableResult
    mutating func apply(_ command: ClusterCommand) -> ClusterOutcome {
        index += 1
        let before = state
        let outcome = state.apply(command, at: index)
        #expect(state.violations(since: before) == [], "after \(command)")
        #expect(unannounced(from: before, to: state, outcome) == [], "after \(command)")
        return outcome
    }

    // MARK: Shortcuts

    /// Has a node announce another port for views.
    @discardableResult
    mutating func announceViews(_ port: UInt16, by number: Int) -> ClusterOutcome {
        guard let node = state.node(number: n(number)) else { return .refused(.nodeUnknown) }
        var address = NodeAddress(number: n(number), host: node.host, ports: node.ports)
        address.ports.views = port
        return apply(.setNode(address))
    }

    @discardableResult
    mutating func createBucket(
        _ name: String = "b",
        replicas: Int = 1,
        rows: [NodeChain]
    ) -> ClusterOutcome {
        var settings = BucketSettings(name: name, uuid: "\(name)-uuid", quota: 100 << 20)
        settings.replicas = replicas
        settings.vBuckets = rows.count
        settings.flushEnabled = true
        let bucket = NewBucket(settings: settings, options: BucketOptions(), rows: rows)
        return apply(.createBucket(bucket))
    }

    @discardableResult
    mutating func rebalance(
        _ id: String = "r",
        kind: RebalanceRecord.Kind = .rebalance,
        kept: [NodeNumber],
        ejected: [NodeNumber] = []
    ) -> ClusterOutcome {
        apply(
            .startRebalance(
                RebalanceRecord(
                    id: id,
                    kind: kind,
                    kept: kept,
                    ejected: ejected,
                    startedMilliseconds: 1_000
                )
            )
        )
    }

    @discardableResult
    mutating func end(
        _ id: String = "r",
        _ ending: RebalanceOutcome.Ending = .completed
    ) -> ClusterOutcome {
        apply(
            .endRebalance(
                RebalanceOutcome(
                    id: id,
                    ending: ending,
                    sentence: "done",
                    endedMilliseconds: 2_000
                )
            )
        )
    }

    @discardableResult
    mutating func targets(_ rows: [NodeChain], copies: UInt8 = 2) -> ClusterOutcome {
        apply(.setTargets(.init(bucket: "b", targets: BucketTargets(copies: copies, rows: rows))))
    }

    func placement(_ vBucket: UInt16) -> VBucketPlacement {
        guard let bucket = state.bucket(named: "b") else {
            preconditionFailure("the tests' bucket is called b")
        }
        return bucket[VBucketID(vBucket)]
    }

    /// A step of one vBucket of `b`, based on its present fence and stage.
    func step(
        _ vBucket: UInt16,
        row: NodeChain = [],
        position: CopyPosition? = nil,
        deposes: [NodeNumber] = []
    ) -> VBucketSteps {
        let step = VBucketSteps.Step(
            VBucketID(vBucket),
            from: placement(vBucket),
            row: row,
            position: position
        )
        return VBucketSteps(bucket: "b", steps: [step], deposes: deposes)
    }
}

func n(_ number: Int) -> NodeNumber { NodeNumber(UInt16(number)) }

func at(_ fence: UInt64, _ covered: UInt64) -> CopyPosition {
    CopyPosition(branchFence: fence, covered: Seqno(covered))
}

/// An effect or outcome of bucket `b` that names exactly these vBuckets as changed, or as left out.
func changed(_ vBuckets: UInt16...) -> ClusterEffect {
    .assignmentsChanged(bucket: "b", vBuckets.map(VBucketID.init))
}

func leftOut(_ vBuckets: UInt16...) -> ClusterOutcome {
    .applied([.leftOut(bucket: "b", vBuckets.map(VBucketID.init))])
}

/// Changed vBuckets that no effect names: nodes would not learn of the change.
func unannounced(
    from before: ClusterState,
    to after: ClusterState,
    _ outcome: ClusterOutcome
) -> [String] {
    var named: [String: Set<VBucketID>] = [:]
    for effect in outcome.effects {
        switch effect {
        case .assignmentsChanged(let bucket, let vBuckets):
            named[bucket, default: []].formUnion(vBuckets)
        case .bucketFlushed(let bucket):
            let count = after.bucket(named: bucket)?.placements.count ?? 0
            named[bucket, default: []].formUnion((0..<count).map { VBucketID(UInt16($0)) })
        default: break
        }
    }
    var found: [String] = []
    for bucket in after.buckets {
        let name = bucket.settings.name
        guard before.bucket(named: name)?.settings.uuid == bucket.settings.uuid,
            let old = before.assignment(ofBucket: name), let new = after.assignment(ofBucket: name)
        else { continue }
        for (number, rows) in zip(old.vBuckets, new.vBuckets).enumerated() {
            // Kept copies depend on memberships, which have an effect of their own.
            var (one, other) = rows
            (one.kept, other.kept) = ([], [])
            let isNamed = named[name]?.contains(VBucketID(UInt16(number))) ?? false
            if one != other, !isNamed { found.append("\(name) \(number)") }
        }
    }
    return found
}

extension NodeKeys {
    /// Keys of a node that connects to no other.
    static func sample(_ byte: UInt8) -> NodeKeys {
        let key = [UInt8](repeating: byte, count: keyByteCount)
        guard let keys = NodeKeys(identity: key, sealing: key) else {
            preconditionFailure("the keys have the right length")
        }
        return keys
    }
}

extension NewEpoch {
    func ordered(by login: String?) -> NewEpoch {
        var epoch = self
        epoch.login = login
        return epoch
    }
}
