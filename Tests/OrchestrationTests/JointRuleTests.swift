import Bytes
import Orchestration
import Testing
import Vocabulary

/// Rules over several objects: a command that passed on arrival is refused if, together with
/// earlier entries, it breaks a rule.
@Suite struct JointRuleTests {
    private static let mib: UInt64 = 1 << 20

    /// One node with 2 048 MB for buckets.
    private static func world() -> ClusterWorld {
        var world = ClusterWorld(nodes: 1)
        world.apply(.setMemoryQuota(2_048 * mib))
        return world
    }

    private static func bucket(_ name: String, megabytes: UInt64) -> ClusterCommand {
        var settings = BucketSettings(name: name, uuid: "\(name)-uuid", quota: megabytes * mib)
        (settings.vBuckets, settings.replicas) = (1, 0)
        return .createBucket(NewBucket(settings: settings, options: .init(), rows: [[n(1)]]))
    }

    private static func raise(
        _ name: String,
        to megabytes: UInt64,
        in state: ClusterState
    ) throws -> ClusterCommand {
        let bucket = try #require(state.bucket(named: name))
        let was = BucketChange.Basis(settings: bucket.settings, options: bucket.options)
        var change = BucketChange(settings: bucket.settings, options: bucket.options, was: was)
        change.settings.quota = megabytes * mib
        return .changeBucket(change)
    }

    private static func isApplied(_ outcome: ClusterOutcome) -> Bool {
        if case .applied = outcome { true } else { false }
    }

    // MARK: Memory quotas

    @Test func secondCreateBeyondTheMemoryQuotaIsRefused() {
        var world = Self.world()
        #expect(Self.isApplied(world.apply(Self.bucket("a", megabytes: 1_200))))
        #expect(world.apply(Self.bucket("b", megabytes: 1_200)) == .refused(.memoryQuotaExceeded))
        #expect(world.state.buckets.map(\.settings.name) == ["a"])
        #expect(Self.isApplied(world.apply(Self.bucket("b", megabytes: 848))))
        #expect(world.state.freeQuota() == 0)
    }

    @Test func secondQuotaRaiseBeyondTheMemoryQuotaIsRefused() throws {
        var world = Self.world()
        world.apply(Self.bucket("a", megabytes: 500))
        world.apply(Self.bucket("b", megabytes: 500))
        // Both commands are based on one state, like those of two nodes.
        let before = world.state
        #expect(Self.isApplied(world.apply(try Self.raise("a", to: 1_200, in: before))))
        let second = try Self.raise("b", to: 1_200, in: before)
        #expect(world.apply(second) == .refused(.memoryQuotaExceeded))
        #expect(world.state.bucket(named: "b")?.settings.quota == 500 * Self.mib)
    }

    @Test func memoryQuotaLoweredBelowTheBucketsIsRefused() {
        var world = Self.world()
        world.apply(Self.bucket("a", megabytes: 1_200))
        let lowered = ClusterCommand.setMemoryQuota(1_000 * Self.mib)
        #expect(world.apply(lowered) == .refused(.memoryQuotaExceeded))
        #expect(world.state.memoryQuota == 2_048 * Self.mib)
        #expect(Self.isApplied(world.apply(.setMemoryQuota(1_200 * Self.mib))))
        #expect(world.apply(Self.bucket("b", megabytes: 100)) == .refused(.memoryQuotaExceeded))
    }

    /// Random quotas by seed: the sum stays within the memory quota after every command, and some
    /// commands of each kind are refused.
    @Test(arguments: 0..<20 as Range<UInt64>)
    func randomCommandsNeverExceedTheMemoryQuota(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        func below(_ bound: UInt64) -> UInt64 { random.next() % bound }
        var world = Self.world()
        var refused = 0
        for step in 0..<300 {
            let name = ["a", "b", "c", "d"][Int(below(4))]
            let command: ClusterCommand
            switch below(4) {
            case 0: command = .setMemoryQuota((1 + below(3_000)) * Self.mib)
            case 1 where world.state.bucket(named: name) != nil:
                let step = BucketStep(name: name, uuid: "\(name)-uuid", phase: .begin)
                world.apply(.deleteBucket(step))
                command = .deleteBucket(BucketStep(name: name, uuid: "\(name)-uuid", phase: .end))
            default:
                command =
                    world.state.bucket(named: name) == nil
                    ? Self.bucket(name, megabytes: 1 + below(1_500))
                    : try Self.raise(name, to: 1 + below(1_500), in: world.state)
            }
            if world.apply(command) == .refused(.memoryQuotaExceeded) { refused += 1 }
            let sum = world.state.buckets.reduce(0) { $0 + $1.settings.quota }
            #expect(sum <= world.state.memoryQuota, "seed \(seed) step \(step): \(command)")
        }
        #expect(refused > 10)
    }

    @Test func quotasThatHaveNoRoomIn64BitsAreRefused() {
        var world = Self.world()
        world.apply(Self.bucket("a", megabytes: 100))
        var settings = BucketSettings(name: "b", uuid: "b", quota: .max)
        (settings.vBuckets, settings.replicas) = (1, 0)
        let new = NewBucket(settings: settings, options: .init(), rows: [[n(1)]])
        #expect(world.apply(.createBucket(new)) == .refused(.memoryQuotaExceeded))
    }

    // MARK: Provisioning

    /// If two requests provision one node at the same time, one sets everything and the other
    /// nothing.
    @Test func refusedInitialisationLeavesQuotaAndNameOfTheFirst() throws {
        var state = ClusterState(memoryQuota: 1_000 * Self.mib)
        _ = state.apply(.addNode(ClusterWorld.node(1)), at: 1)
        func birth(_ name: String, megabytes: UInt64) -> ClusterCommand {
            let administrator = Administrator(name: name, credentials: [1])
            var birth = Initialisation(uuid: name, groupID: 7, administrator: administrator)
            birth.memoryQuota = megabytes * Self.mib
            birth.name = name
            return .initialise(birth)
        }
        for command in [birth("one", megabytes: 300), birth("two", megabytes: 400)] {
            let envelope = ClusterEnvelope(proposer: n(1), boot: 1, number: 0, command: command)
            let read = try ClusterEnvelope(decoding: envelope.encoded)
            #expect(read == envelope)
            let outcome = state.apply(read, at: state.index + 1)
            #expect(outcome == .refused(.alreadyInitialised) || state.uuid == "one")
        }
        #expect(state.name == "one" && state.administrator?.name == "one")
        #expect(state.memoryQuota == 300 * Self.mib)
    }

    // MARK: Flush

    /// A flush that waits for an earlier one is applied after flushes were disabled.
    @Test func flushAfterFlushWasDisabledIsRefused() throws {
        var world = ClusterWorld(nodes: 1)
        world.createBucket(replicas: 0, rows: [[n(1)]])
        let bucket = try #require(world.state.bucket(named: "b"))
        var change = BucketChange(settings: bucket.settings, options: bucket.options)
        change.settings.flushEnabled = false
        world.apply(.changeBucket(change))
        let begin = BucketStep(name: "b", uuid: "b-uuid", phase: .begin)
        #expect(world.apply(.flushBucket(begin)) == .refused(.flushDisabled))
        #expect(world.state.bucket(named: "b")?.flush == nil)
    }

    // MARK: Nodes

    @Test func nodeAddedAfterARebalanceBeganIsRefused() {
        var world = ClusterWorld(nodes: 2)
        world.rebalance(kept: [n(1), n(2)])
        #expect(world.apply(.addNode(ClusterWorld.node(3))) == .refused(.rebalanceRunning))
        world.end()
        #expect(Self.isApplied(world.apply(.addNode(ClusterWorld.node(3)))))
    }

    /// An eject waits until the node has no vote.
    ///
    /// Meanwhile a rebalance can make the node active and end.
    @Test func nodeThatBecameActiveIsNotRemoved() {
        var world = ClusterWorld(nodes: 2)
        world.apply(.addNode(ClusterWorld.node(3)))
        world.apply(.setNodeState(.init(number: n(3), membership: .inactiveAdded)))
        world.rebalance(kept: [n(1), n(2), n(3)])
        world.end()
        // Without a bucket the node holds no copy.
        #expect(world.apply(.removeNode(n(3))) == .refused(.nodeInUse))
        #expect(world.state.activeNodes.count == 3)
    }

    /// A graceful failover lists active nodes only.
    @Test func waitingNodeIsNotRemovedDuringAGracefulFailover() {
        var world = ClusterWorld(nodes: 2)
        world.apply(.addNode(ClusterWorld.node(3)))
        world.apply(.setNodeState(.init(number: n(3), membership: .inactiveAdded)))
        world.rebalance(kind: .gracefulFailover, kept: [n(1)], ejected: [n(2)])
        #expect(world.apply(.removeNode(n(3))) == .refused(.rebalanceRunning))
        world.end()
        #expect(Self.isApplied(world.apply(.removeNode(n(3)))))
    }

    @Test func joiningNodeCanBeRemovedDuringARebalance() {
        var world = ClusterWorld(nodes: 2)
        world.apply(.addNode(ClusterWorld.node(3)))
        world.rebalance(kept: [n(1), n(2)])
        #expect(Self.isApplied(world.apply(.removeNode(n(3)))))
    }

    /// A bucket without replicas is created after the request was checked and before its entry is
    /// applied.
    @Test func gracefulFailoverOfTheOnlyCopiesIsRefused() {
        var world = ClusterWorld(nodes: 2)
        world.createBucket(replicas: 0, rows: [[n(1)], [n(2)]])
        let began = world.rebalance(kind: .gracefulFailover, kept: [n(1)], ejected: [n(2)])
        #expect(began == .refused(.onlyCopies))
        #expect(world.state.rebalance == nil)
        // A rebalance moves them instead.
        #expect(Self.isApplied(world.rebalance(kept: [n(1)], ejected: [n(2)])))
    }

    /// Either all nodes or none have loopback addresses: a host that was checked against outdated
    /// hosts has to be checked again.
    @Test func nodeCheckedAgainstOutdatedHostsIsRefused() throws {
        var world = ClusterWorld(nodes: 1)
        var loopback = ClusterWorld.node(2)
        loopback.namesRevision = world.state.namesRevision
        let own = try #require(world.state.node(number: n(1)))
        var change = NodeAddress(number: n(1), host: "10.0.0.1", ports: own.ports)
        change.isOfLoneNode = true
        world.apply(.setNode(change))
        #expect(world.apply(.addNode(loopback)) == .refused(.changedMeanwhile))
        loopback.namesRevision = world.state.namesRevision
        #expect(Self.isApplied(world.apply(.addNode(loopback))))
        // From now on the node is not alone.
        #expect(world.apply(.setNode(change)) == .refused(.changedMeanwhile))
        change.isOfLoneNode = false
        #expect(Self.isApplied(world.apply(.setNode(change))))
    }

    @Test func namesRevisionsSurviveTheirEncoding() {
        var node = ClusterWorld.node(2)
        node.namesRevision = 0x0102_0304
        var address = NodeAddress(number: n(1), host: "h", ports: node.ports)
        address.isOfLoneNode = true
        for command in [ClusterCommand.addNode(node), .setNode(address)] {
            let envelope = ClusterEnvelope(proposer: n(1), boot: 1, number: 1, command: command)
            #expect((try? ClusterEnvelope(decoding: envelope.encoded)) == envelope)
            #expect((try? ClusterEnvelope(decoding: envelope.encoded + [0])) == nil)
        }
    }
}
