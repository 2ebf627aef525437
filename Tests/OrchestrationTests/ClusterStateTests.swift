import Orchestration
import Testing
import Vocabulary

@Suite struct ClusterStateTests {
    @Test func revisionsOnlyGrowAlsoForABucketMadeAgain() throws {
        var state = BucketFormTests.state
        let first = try #require(state.bucket(named: "Taken"))
        #expect(first.rev == 3)
        let deleted = state.apply(.deleteBucket(name: "Taken", uuid: "bb"), at: 4)
        #expect(deleted == .applied([.bucketDeleted(name: "Taken")]))
        #expect(state.buckets.isEmpty)
        let again = BucketFormTests.record(
            BucketSettings(name: "Taken", uuid: "dd", quota: 100 << 20)
        )
        #expect(
            state.apply(.createBucket(again), at: 5) == .applied([.bucketCreated(name: "Taken")])
        )
        #expect(state.bucket(named: "Taken")?.rev == 5)
    }

    @Test func movingANodeMovesTheRevisionOfItsBuckets() {
        var state = BucketFormTests.state
        let ports = NodePorts(admin: 9_000, data: 9_001)
        let node = NodeRecord(number: 0, uuid: "aa", host: "127.0.0.1", ports: ports)
        #expect(state.apply(.setNode(node), at: 4) == .applied([.nodesChanged]))
        #expect(state.rev == 4)
        #expect(state.bucket(named: "Taken")?.rev == 4)
        #expect(state.nodes.first?.otpNode == "n_9000@127.0.0.1")
    }

    @Test func whatCameTooLateIsRefused() throws {
        var state = BucketFormTests.state
        let twin = BucketFormTests.record(BucketSettings(name: "TAKEN", uuid: "x", quota: 1))
        #expect(state.apply(.createBucket(twin), at: 4) == .refused(.bucketExists))
        let gone = ClusterCommand.deleteBucket(name: "Taken", uuid: "other")
        #expect(state.apply(gone, at: 5) == .refused(.bucketUnknown))
        let administrator = Administrator(name: "x", credentials: [])
        let again = ClusterCommand.initialise(uuid: "x", administrator: administrator)
        #expect(state.apply(again, at: 6) == .refused(.alreadyInitialised))
        var settings = state.settings
        settings.maxBucketCount = 1
        _ = state.apply(.setSettings(settings), at: 7)
        let second = BucketFormTests.record(BucketSettings(name: "second", uuid: "x", quota: 1))
        #expect(state.apply(.createBucket(second), at: 8) == .refused(.tooManyBuckets))
        var fresh = ClusterState(memoryQuota: 1)
        #expect(fresh.apply(.createBucket(second), at: 1) == .refused(.notInitialised))
    }

    @Test func theSameCommandsMakeTheSameState() {
        let (one, other) = (BucketFormTests.state, BucketFormTests.state)
        #expect(one == other)
        #expect(one.encoded() == other.encoded())
    }

    @Test func theStateSurvivesItsEncoding() throws {
        var state = BucketFormTests.state
        _ = state.apply(.setName("My cluster"), at: 4)
        var settings = BucketSettings(name: "e", uuid: "ee", quota: 128 << 20)
        settings.type = .ephemeral
        settings.evictionPolicy = .nruEviction
        settings.replicas = 3
        settings.vBuckets = 64
        settings.flushEnabled = true
        settings.passwordless = true
        settings.maxTTL = 77
        var record = BucketFormTests.record(settings)
        record.options.compressionMode = .active
        record.options.conflictResolution = .lww
        record.options.storageBackend = .magma
        record.options.replicaIndex = true
        _ = state.apply(.createBucket(record), at: 5)
        guard case .state(let decoded) = ClusterState.decode(state.encoded()) else {
            Issue.record("not decoded")
            return
        }
        #expect(decoded == state)
    }

    @Test func damageAndANewerSchemaAreToldApart() {
        let bytes = BucketFormTests.state.encoded()
        for place in bytes.indices {
            var damaged = bytes
            damaged[place] ^= 0x40
            switch ClusterState.decode(damaged) {
            case .state: Issue.record("a flipped bit at \(place) passed")
            case .newerSchema: #expect(place == 8 || place == 9)
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
