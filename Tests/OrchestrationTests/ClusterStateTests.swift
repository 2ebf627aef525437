import Foundation
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
        record.options.compressionMode = .off
        _ = state.apply(.createBucket(record), at: 5)
        guard case .state(let decoded) = ClusterState.decode(state.encoded()) else {
            Issue.record("not decoded")
            return
        }
        #expect(decoded == state)
    }

    /// Written by a node of schema 1, with every setting that schema 2 forgets.
    private static let schemaOne =
        "RElWQU5DTFUAAQUBBCBkOWFiOWFjYzA5MmRlMDAyNWQ3ZDMxMWNmOWE0NWNmZQNvbGQBDUFkbWluaXN0"
        + "cmF0b3LPA3NjcmFtLTE7U0NSQU0tU0hBNTEyLDEwMDAwLGdDY1RWQmhvb0lOU3V3V05aRzFXVUE9PSx2"
        + "RCtVejBSUW1rMDQ3UkN2TjZrcDRPMUg2b3pGWHptQWNYWkFtcDRrRlc1WEhxMzBaa1BhME9yWnRnODJk"
        + "Q0xneW8xdXlNZllTeG5vUXhZUHNyaTNBdz09LFJxaEF3SWpSUjIxRzgvYTdWdGw0eXE4WnlQOG1sMThY"
        + "UDlFV3VmUmd1WWtTZWFsNTJtUXZmeUhLZXZ6OWNVbG02UElZVnNqRzdDTUJYYnNyemdWZW1nPT07U0NS"
        + "QU0tU0hBMjU2LDEwMDAwLEIzRWhiL09mdytydi9KZmdkNjgxV1E9PSxlTGgvcE9OeDM1K0RHellreGsw"
        + "aWtxNlV5aGZHRGU0VVdUVk55OVBqWUpFPSxNcE1LM201MXJYUTFTSWQ0a0dEb1VESUlCMW82dVV6Y2FN"
        + "T0JSZkxuRUJBPTtTQ1JBTS1TSEExLDEwMDAwLDFldzUxYkFUME41c2xJNWdOR1B4aUE9PSxlWFl2bmRx"
        + "clJmOTE0WnQvS3VPVTcvQmpzeXM9LFgxbjlxT0ZYZmZSNHN2Zy9ud0FGTklEbjlEST2AgICAAh5I6AcB"
        + "ACAxYmIxMzc4OWUxMjkzOWI3M2ZiZTcyYTBhY2E4MjBjZQkxMjcuMC4wLjGXpbN/AAAAAAEBYiAyMzg1"
        + "NzU5ZTAyZDVkMjQ2NDFkOTJmYWUzODBjNDAzYwdtZW1iYXNlCXZhbHVlT25seQVtYWdtYQZhY3RpdmUF"
        + "c2Vxbm+AgIAyAEAJAAAABQEAAUAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        + "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAvzygjg=="

    @Test func aStateOfTheSchemaBeforeIsStillRead() throws {
        let bytes = Array(try #require(Data(base64Encoded: Self.schemaOne)))
        guard case .state(let state) = ClusterState.decode(bytes) else {
            Issue.record("not decoded")
            return
        }
        #expect(state.name == "old")
        let bucket = try #require(state.buckets.first)
        #expect(bucket.settings.name == "b")
        #expect(bucket.settings.quota == 100 << 20)
        #expect(bucket.settings.maxTTL == 9)
        #expect(bucket.options.compressionMode == .passive)
        #expect(bucket.rows.count == 64)
        #expect(bucket.rev == 5)
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
