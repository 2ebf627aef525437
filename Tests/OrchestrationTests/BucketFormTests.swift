import Orchestration
import Testing
import Vocabulary

/// Every rule of a bucket's form, with its error text.
@Suite struct BucketFormTests {
    /// A provisioned node with 1 000 MB, and one bucket of 300 MB.
    static let state: ClusterState = {
        var state = ClusterState(memoryQuota: 1_000 << 20)
        let ports = NodePorts(admin: 8_091, data: 11_210)
        let node = NewNode(uuid: "aa", host: "127.0.0.1", ports: ports, keys: .sample(1))
        let administrator = Administrator(name: "Administrator", credentials: [1, 2, 3])
        let birth = Initialisation(uuid: "cc", groupID: 77, administrator: administrator)
        _ = state.apply(.addNode(node), at: 1)
        _ = state.apply(.initialise(birth), at: 2)
        let settings = BucketSettings(name: "Taken", uuid: "bb", quota: 300 << 20)
        _ = state.apply(.createBucket(record(settings)), at: 3)
        return state
    }()

    static func record(_ settings: BucketSettings) -> NewBucket {
        NewBucket(
            settings: settings,
            options: BucketOptions(),
            rows: Array(repeating: [NodeNumber(1)], count: settings.vBuckets)
        )
    }

    func validate(
        _ fields: [(String, String)],
        on state: ClusterState = Self.state,
        changing name: String? = nil
    ) -> BucketForm.Decision {
        let existing = name.flatMap { state.bucket(named: $0) }
        let ground = BucketForm.Ground(state: state, existing: existing, uuid: "new")
        return BucketForm.validate(FormParameters(fields.map { ($0.0, $0.1) }), on: ground)
    }

    func settings(
        _ fields: [(String, String)],
        changing name: String? = nil
    ) throws -> (BucketSettings, BucketOptions) {
        guard case .accepted(let settings, let options) = validate(fields, changing: name) else {
            Issue.record("refused: \(validate(fields, changing: name))")
            throw Unexpected()
        }
        return (settings, options)
    }

    struct Unexpected: Error {}

    @Test func minimalFormGetsTheDefaults() throws {
        let (settings, options) = try settings([("name", "b"), ("ramQuotaMB", "100")])
        #expect(settings.name == "b")
        #expect(settings.uuid == "new")
        #expect(settings.quota == 100 << 20)
        #expect(settings.type == .persistent)
        #expect(settings.replicas == 1)
        #expect(settings.evictionPolicy == .valueOnly)
        #expect(settings.vBuckets == 1_024)
        #expect(!settings.flushEnabled)
        #expect(settings.passwordless == .none)
        #expect(settings.maxTTL == 0)
        #expect(options.compressionMode == .passive)
    }

    @Test func everyFieldReachesTheSettings() throws {
        let (settings, options) = try settings([
            ("name", "a_b.c-d%"), ("ramQuota", "200"), ("bucketType", "ephemeral"),
            ("replicaNumber", "2"), ("evictionPolicy", "nruEviction"), ("flushEnabled", "1"),
            ("numVBuckets", "64"), ("passwordless", "1"), ("maxTTL", "60"),
            ("compressionMode", "passive"), ("conflictResolutionType", "seqno"),
            ("durabilityMinLevel", "none"), ("authType", "sasl"), ("saslPassword", ""),
            ("proxyPort", "0"), ("threadsNumber", "3"), ("whatever", "x"),
        ])
        #expect(settings.type == .ephemeral)
        #expect(settings.replicas == 2)
        #expect(settings.evictionPolicy == .nruEviction)
        #expect(settings.flushEnabled)
        #expect(settings.vBuckets == 64)
        #expect(settings.passwordless == .loopback)
        #expect(settings.maxTTL == 60)
        #expect(options.compressionMode == .passive)
    }

    /// Settings that present clients send by default.
    @Test func unimplementedSettingsAreAcceptedIfTheyHaveNoEffect() throws {
        let (_, options) = try settings([
            ("name", "b"), ("ramQuotaMB", "100"), ("replicaIndex", "1"),
            ("storageBackend", "couchstore"), ("conflictResolutionType", "seqno"),
            ("compressionMode", "passive"), ("autoCompactionDefined", "false"),
        ])
        #expect(options.compressionMode == .passive)
    }

    static let wrong: [(field: String, value: String, error: String, text: String)] = [
        ("name", "", "name", "A bucket's name cannot be empty"),
        ("name", ".b", "name", "A bucket's name cannot begin with a dot"),
        ("name", "_users.couch.x", "name", "This name is reserved"),
        ("name", "_Replicator.Couch.x", "name", "This name is reserved"),
        ("name", "taken", "name", "Bucket with given name already exists"),
        ("name", "Taken", "name", "Bucket with given name already exists"),
        (
            "name", "a b", "name",
            "A bucket's name has only the letters A-Z and a-z, digits, and _ . % -"
        ),
        (
            "name", "caf\u{e9}", "name",
            "A bucket's name has only the letters A-Z and a-z, digits, and _ . % -"
        ),
        (
            "name", String(repeating: "n", count: 101), "name",
            "A bucket's name has at most 100 characters"
        ),
        ("ramQuotaMB", "99", "ramQuota", "The memory quota cannot be less than 100 MB"),
        ("ramQuotaMB", "-1", "ramQuota", "The memory quota is a whole number of MB"),
        ("ramQuotaMB", "1e3", "ramQuota", "The memory quota is a whole number of MB"),
        ("ramQuotaMB", "", "ramQuota", "The memory quota is a whole number of MB"),
        (
            "ramQuotaMB", "99999999999999999999", "ramQuota",
            "The memory quota is a whole number of MB"
        ),
        (
            "ramQuotaMB", "701", "ramQuota",
            "The memory quota of 701 MB does not fit: of the data service's 1000 MB on each node, "
                + "700 MB are free"
        ),
        (
            "bucketType", "memcached", "bucketType",
            "Memcached buckets are not supported; use ephemeral"
        ),
        (
            "bucketType", "x", "bucketType",
            "The bucket type is one of couchbase, membase, ephemeral"
        ),
        ("replicaNumber", "4", "replicaNumber", "The number of replicas is 0, 1, 2 or 3"),
        ("replicaNumber", "-1", "replicaNumber", "The number of replicas is 0, 1, 2 or 3"),
        ("replicaIndex", "2", "replicaIndex", "replicaIndex is 0 or 1"),
        ("flushEnabled", "yes", "flushEnabled", "flushEnabled is 0 or 1"),
        ("passwordless", "2", "passwordless", "passwordless is 0, 1 or network"),
        (
            "evictionPolicy", "noEviction", "evictionPolicy",
            "The eviction policy of a couchbase bucket is valueOnly or fullEviction"
        ),
        (
            "numVBuckets", "100", "numVBuckets",
            "The number of vBuckets is one of 64, 128, 256, 1024"
        ),
        ("maxTTL", "2147483648", "maxTTL", "The maximum time to live is 0 to 2147483647 seconds"),
        (
            "compressionMode", "zip", "compressionMode",
            "Values are stored as clients read them, never compressed. The only value is passive."
        ),
        (
            "storageBackend", "rocks", "storageBackend",
            "The storage backend is couchstore or magma"
        ),
        (
            "conflictResolutionType", "lww", "conflictResolutionType",
            "Conflict resolution type 'lww' is supported only in enterprise edition"
        ),
        (
            "autoCompactionDefined", "true", "autoCompactionDefined",
            "A bucket has no compaction settings of its own; the cluster's settings apply"
        ),
        (
            "durabilityMinLevel", "some", "durabilityMinLevel",
            "The minimum durability is one of none, majority, majorityAndPersistActive, "
                + "persistToMajority"
        ),
        (
            "durabilityMinLevel", "majority", "durability_min_level",
            "There are not enough data nodes for a minimum durability of majority"
        ),
    ]

    @Test(arguments: wrong.indices)
    func invalidFieldIsRefusedWithItsError(_ place: Int) {
        let wrong = Self.wrong[place]
        var fields = [("name", "b"), ("ramQuotaMB", "100")].filter { $0.0 != wrong.field }
        fields.append((wrong.field, wrong.value))
        #expect(validate(fields) == .refused([FieldError(wrong.error, wrong.text)]))
    }

    @Test func formReportsAllErrorsAtOnce() {
        let decision = validate([("bucketType", "x"), ("flushEnabled", "x")])
        guard case .refused(let errors) = decision else {
            Issue.record("accepted")
            return
        }
        #expect(errors.map(\.field) == ["name", "bucketType", "ramQuota", "flushEnabled"])
    }

    @Test func ephemeralBucketsHaveOwnRules() {
        let base = [("name", "e"), ("ramQuotaMB", "100"), ("bucketType", "ephemeral")]
        #expect(
            validate(base + [("evictionPolicy", "valueOnly")])
                == .refused([
                    FieldError(
                        "evictionPolicy",
                        "The eviction policy of an ephemeral bucket is noEviction or nruEviction"
                    )
                ])
        )
        #expect(
            validate(base + [("replicaIndex", "1")])
                == .refused([
                    FieldError("replicaIndex", "An ephemeral bucket has no replica index")
                ])
        )
        #expect(
            validate(base + [("durabilityMinLevel", "persistToMajority")])
                == .refused([
                    FieldError(
                        "durabilityMinLevel",
                        "The minimum durability is one of none, majority"
                    )
                ])
        )
    }

    @Test(
        arguments: [
            ("none", nil), ("majority", .majority),
            ("majorityAndPersistActive", .majorityAndPersistOnActive),
            ("persistToMajority", .persistToMajority),
        ] as [(String, DurabilityLevel?)]
    )
    func minimumDurabilityIsSetByName(_ name: String, _ level: DurabilityLevel?) throws {
        let (settings, _) = try settings([
            ("name", "d"), ("ramQuotaMB", "100"), ("replicaNumber", "0"),
            ("durabilityMinLevel", name),
        ])
        #expect(settings.minimumDurability == level)
        #expect(level.map { $0.name == name } ?? true)
    }

    /// Old forms send no minimum durability, so an existing one must not make them fail.
    @Test func minimumDurabilityIsCheckedAgainstTheReplicas() throws {
        let base = [("name", "d"), ("ramQuotaMB", "100"), ("durabilityMinLevel", "majority")]
        let three = [
            FieldError(
                "durability_min_level",
                "A minimum durability is not possible with 3 replicas"
            )
        ]
        #expect(validate(base + [("replicaNumber", "3")]) == .refused(three))
        var state = Self.state
        var settings = BucketSettings(name: "Kept", uuid: "dd", quota: 100 << 20)
        settings.minimumDurability = .majority
        _ = state.apply(.createBucket(Self.record(settings)), at: 4)
        #expect(validate([("replicaNumber", "3")], on: state, changing: "Kept") == .refused(three))
        guard
            case .accepted(let changed, _) = validate(
                [("maxTTL", "9")],
                on: state,
                changing: "Kept"
            )
        else {
            Issue.record("an unrelated change is refused")
            return
        }
        #expect(changed.minimumDurability == .majority)
        let lifted = validate([("durabilityMinLevel", "none")], on: state, changing: "Kept")
        guard case .accepted(let free, _) = lifted else {
            Issue.record("the floor cannot be taken away")
            return
        }
        #expect(free.minimumDurability == nil)
    }

    @Test func changeKeepsFieldsThatItDoesNotContain() throws {
        let (settings, _) = try settings([("flushEnabled", "1")], changing: "Taken")
        #expect(settings.flushEnabled)
        #expect(settings.uuid == "bb")
        #expect(settings.quota == 300 << 20)
        // The bucket's own quota counts as free.
        #expect(
            try self.settings([("ramQuotaMB", "1000")], changing: "Taken").0.quota == 1_000 << 20
        )
        #expect(try self.settings([("name", "other")], changing: "Taken").0.name == "Taken")
        #expect(try self.settings([("bucketType", "couchbase")], changing: "Taken").0.replicas == 1)
    }

    @Test(arguments: [
        ("bucketType", "ephemeral", "A bucket's type cannot be changed"),
        ("numVBuckets", "64", "A bucket's number of vBuckets cannot be changed"),
        ("storageBackend", "rocks", "The storage backend is couchstore or magma"),
        (
            "conflictResolutionType", "lww",
            "Conflict resolution type 'lww' is supported only in enterprise edition"
        ),
    ])
    func immutableFieldsCannotBeChanged(_ field: String, _ value: String, _ text: String) {
        #expect(
            validate([(field, value)], changing: "Taken") == .refused([FieldError(field, text)])
        )
    }

    @Test func summariesCountMemoryOfAllBucketsAndDiskOfNone() {
        var usage = BucketSummaries.Usage()
        usage.diskTotal = 1_000
        usage.diskFree = 400
        usage.otherDisk = 100
        let summaries = BucketSummaries(
            state: Self.state,
            name: nil,
            quota: 100 << 20,
            usage: usage
        )
        #expect(summaries.memoryTotal == 1_000 << 20)
        #expect(summaries.memoryOfOthers == 300 << 20)
        #expect(summaries.nodeCount == 1)
        #expect(summaries.perNodeMegabytes == 100)
        #expect(summaries.memoryAllocated == 100 << 20)
        #expect(summaries.memoryFree == 600 << 20)
        #expect(summaries.otherData == 500)
    }

    /// A refused form shows its quota too, up to 2^60 bytes on each node.
    @Test(
        arguments: [
            (1, 1_152_921_504_606_846_976, -1_152_921_503_558_270_976),
            (15, 17_293_822_569_102_704_640, -9_223_372_036_854_775_807),
            (16, 18_446_744_073_709_551_615, -9_223_372_036_854_775_807),
            (17, 18_446_744_073_709_551_615, -9_223_372_036_854_775_807),
        ] as [(Int, UInt64, Int64)]
    )
    func summaryOfTooLargeQuotaIsBounded(nodes: Int, allocated: UInt64, free: Int64) {
        let state = ClusterWorld(nodes: nodes).state
        #expect(state.activeNodes.count == nodes)
        let summaries = BucketSummaries(state: state, name: nil, quota: 1 << 60, usage: .init())
        #expect(summaries.memoryTotal == UInt64(nodes) * 1_000 << 20)
        #expect(summaries.memoryOfOthers == 0)
        #expect(summaries.nodeCount == UInt64(nodes))
        #expect(summaries.perNodeMegabytes == 1_099_511_627_776)
        #expect(summaries.memoryAllocated == allocated)
        #expect(summaries.memoryFree == free)
    }
}
