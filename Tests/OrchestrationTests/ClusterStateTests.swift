import Foundation
import Orchestration
import Testing
import Vocabulary

@Suite struct ClusterStateTests {
    @Test func revisionsGrowAlsoForARecreatedBucket() throws {
        var state = BucketFormTests.state
        let first = try #require(state.bucket(named: "Taken"))
        #expect(first.rev == 3)
        var deletion = BucketStep(name: "Taken", uuid: "bb", phase: .begin)
        let deleted = state.apply(.deleteBucket(deletion), at: 4)
        #expect(deleted == .applied([.bucketDeleted(name: "Taken")]))
        #expect(state.buckets.isEmpty)
        let early = BucketFormTests.record(BucketSettings(name: "taken", uuid: "x", quota: 1))
        #expect(state.apply(.createBucket(early), at: 5) == .refused(.bucketBeingDeleted))
        deletion.phase = .end
        #expect(state.apply(.deleteBucket(deletion), at: 6) == .applied([]))
        #expect(state.apply(.deleteBucket(deletion), at: 7) == .refused(.bucketUnknown))
        let again = BucketFormTests.record(
            BucketSettings(name: "Taken", uuid: "dd", quota: 100 << 20)
        )
        #expect(
            state.apply(.createBucket(again), at: 8) == .applied([.bucketCreated(name: "Taken")])
        )
        #expect(state.bucket(named: "Taken")?.rev == 8)
    }

    @Test func changedNodeAddressRaisesTheRevisionOfItsBuckets() {
        var state = BucketFormTests.state
        let ports = NodePorts(admin: 9_000, data: 9_001)
        let node = NodeAddress(number: NodeNumber(1), host: "127.0.0.1", ports: ports)
        #expect(state.apply(.setNode(node), at: 4) == .applied([.nodesChanged]))
        #expect(state.rev == 4)
        #expect(state.bucket(named: "Taken")?.rev == 4)
        #expect(state.nodes.first?.otpNode == "n_9000@127.0.0.1")
    }

    @Test func lateCommandsAreRefused() throws {
        var state = BucketFormTests.state
        let twin = BucketFormTests.record(BucketSettings(name: "TAKEN", uuid: "x", quota: 1))
        #expect(state.apply(.createBucket(twin), at: 4) == .refused(.bucketExists))
        let gone = BucketStep(name: "Taken", uuid: "other", phase: .begin)
        #expect(state.apply(.deleteBucket(gone), at: 5) == .refused(.bucketUnknown))
        let administrator = Administrator(name: "x", credentials: [])
        let again = Initialisation(uuid: "x", groupID: 1, administrator: administrator)
        #expect(state.apply(.initialise(again), at: 6) == .refused(.alreadyInitialised))
        var settings = state.settings
        settings.maxBucketCount = 1
        _ = state.apply(.setSettings(settings), at: 7)
        let second = BucketFormTests.record(BucketSettings(name: "second", uuid: "x", quota: 1))
        #expect(state.apply(.createBucket(second), at: 8) == .refused(.tooManyBuckets))
        var fresh = ClusterState(memoryQuota: 1)
        #expect(fresh.apply(.createBucket(second), at: 1) == .refused(.notInitialised))
    }

    /// Two administrators change different settings at the same time.
    ///
    /// The second change is refused and is retried on the new settings, so neither change is lost.
    @Test func changeBasedOnOutdatedSettingsIsRefused() throws {
        var state = BucketFormTests.state
        let was = state.settings
        var (one, other) = (was, was)
        one.maxBucketCount = 3
        other.retry.isEnabled.toggle()
        #expect(state.apply(.setSettings(one, was: was), at: 4) == .applied([.settingsChanged]))
        let late = ClusterCommand.setSettings(other, was: was)
        #expect(state.apply(late, at: 5) == .refused(.changedMeanwhile))
        #expect(state.settings == one)

        let bucket = try #require(state.bucket(named: "Taken"))
        let basis = BucketChange.Basis(settings: bucket.settings, options: bucket.options)
        var change = BucketChange(settings: bucket.settings, options: bucket.options, was: basis)
        change.settings.flushEnabled.toggle()
        let changed = ClusterOutcome.applied([.bucketChanged(name: "Taken")])
        #expect(state.apply(.changeBucket(change), at: 6) == changed)
        change.settings.quota += 1
        #expect(state.apply(.changeBucket(change), at: 7) == .refused(.changedMeanwhile))

        let group = ServerGroup(name: "Rack 2", uuid: "r2")
        let revision = state.groupsRevision
        let layout = GroupLayout(groups: state.groups + [group], members: [], revision: revision)
        #expect(state.apply(.setGroups(layout), at: 8) == .applied([.nodesChanged]))
        #expect(state.apply(.setGroups(layout), at: 9) == .refused(.changedMeanwhile))
    }

    @Test func sameCommandsYieldTheSameState() {
        let (one, other) = (BucketFormTests.state, BucketFormTests.state)
        #expect(one == other)
        #expect(one.encoded() == other.encoded())
    }

    @Test func stateSurvivesItsEncoding() throws {
        var state = BucketFormTests.state
        _ = state.apply(.setName("My cluster"), at: 4)
        var settings = BucketSettings(name: "e", uuid: "ee", quota: 128 << 20)
        settings.type = .ephemeral
        settings.evictionPolicy = .nruEviction
        settings.replicas = 3
        settings.vBuckets = 64
        settings.flushEnabled = true
        settings.passwordless = .loopback
        settings.maxTTL = 77
        var record = BucketFormTests.record(settings)
        record.options.compressionMode = .off
        _ = state.apply(.createBucket(record), at: 5)
        guard case .state(let decoded) = ClusterState.decode(state.encoded()) else {
            Issue.record("not decoded")
            return
        }
        #expect(decoded == state)
    }

    @Test(arguments: [0, 2, 9] as [UInt8])
    func stateOfAnotherSchemaIsRefused(_ schema: UInt8) {
        var bytes = BucketFormTests.state.encoded()
        bytes.replaceSubrange(8..<10, with: [0, schema])
        guard case .otherSchema(UInt16(schema)) = ClusterState.decode(bytes) else {
            Issue.record("not refused")
            return
        }
    }

    @Test func damageAndAnotherSchemaAreDistinguished() {
        let bytes = BucketFormTests.state.encoded()
        for place in bytes.indices {
            var damaged = bytes
            damaged[place] ^= 0x40
            switch ClusterState.decode(damaged) {
            case .state: Issue.record("a flipped bit at \(place) passed")
            case .otherSchema: #expect(place == 8 || place == 9)
            case .damaged: break
            }
        }
        for length in 0..<bytes.count {
            guard case .damaged = ClusterState.decode(Array(bytes.prefix(length))) else {
                Issue.record("\(length) bytes of \(bytes.count) passed")
                return
            }
        }
    }
}
