import Bytes
import Orchestration
import Testing
import Vocabulary

/// Design documents as part of the agreed state.
@Suite struct DesignDocumentTests {
    private static func put(
        _ name: String,
        _ text: String = "{}",
        bucket: String = "b-uuid",
        was: DesignRevision? = nil
    ) -> ClusterCommand {
        let body = Array(text.utf8)
        return .putDesignDocument(.init(bucket: bucket, name: name, body: body, was: was))
    }

    private static func delete(_ name: String, bucket: String = "b-uuid") -> ClusterCommand {
        .deleteDesignDocument(.init(bucket: bucket, name: name))
    }

    /// JSON with this number of bytes.
    private static func text(bytes: Int) -> String {
        #"{"a":""# + String(repeating: "x", count: bytes - 8) + #""}"#
    }

    private static let changed = ClusterOutcome.applied([.designDocumentsChanged(bucket: "b")])

    private func names(_ world: ClusterWorld, _ bucket: String = "b") -> [String] {
        world.state.bucket(named: bucket)?.designDocuments.map(\.id) ?? []
    }

    // MARK: Changes

    @Test func revisionGrowsWithEachChangeOfTheText() throws {
        var world = ClusterWorld.withDesigns()
        func revision() -> DesignRevision? {
            world.state.bucket(named: "b")?.designDocument(named: "x")?.revision
        }
        #expect(world.apply(Self.put("x", "{}")) == Self.changed)
        let first = try #require(revision())
        #expect(first.number == 1)
        #expect(world.state.bucket(named: "b")?.designRevision == world.index)
        #expect(world.apply(Self.put("x", #"{"views":{}}"#)) == Self.changed)
        #expect(revision()?.number == 2 && revision()?.digest != first.digest)
        // The same text again is no change.
        let before = world.state.bucket(named: "b")
        #expect(world.apply(Self.put("x", #"{"views":{}}"#)) == .applied([]))
        #expect(world.state.bucket(named: "b") == before)
        #expect(world.apply(Self.put("x", "{}")) == Self.changed)
        #expect(revision()?.number == 3 && revision()?.digest == first.digest)
    }

    @Test func documentsAreSortedByBytesAndNamedByThem() {
        var world = ClusterWorld.withDesigns()
        for name in ["x", "dev_x", "X", "a/b", "\u{e9}", "e\u{301}", ""] {
            let isPossible = !name.isEmpty
            #expect((world.apply(Self.put(name)) == Self.changed) == isPossible)
        }
        let sorted = ["X", "a/b", "dev_x", "e\u{301}", "x", "\u{e9}"].map { "_design/" + $0 }
        #expect(names(world).map { Array($0.utf8) } == sorted.map { Array($0.utf8) })
        #expect(world.apply(Self.delete("\u{e9}")) == Self.changed)
        #expect(names(world).count == 5)
        let bucket = world.state.bucket(named: "b")
        #expect(bucket?.designDocument(named: "\u{e9}") == nil)
        #expect(bucket?.designDocument(named: "e\u{301}") != nil)
    }

    @Test func recreatedDesignDocumentHasRevisionOne() {
        var world = ClusterWorld.withDesigns()
        world.apply(Self.put("x", "{}"))
        world.apply(Self.put("x", #"{"views":{}}"#))
        #expect(world.apply(Self.delete("x")) == Self.changed)
        #expect(world.state.bucket(named: "b")?.designRevision == world.index)
        #expect(names(world) == [])
        #expect(world.apply(Self.delete("x")) == .refused(.designDocumentUnknown))
        world.apply(Self.put("x", "{}"))
        let document = world.state.bucket(named: "b")?.designDocument(named: "x")
        #expect(document?.revision.number == 1)
    }

    @Test func changeBasedOnAnotherRevisionIsRefused() throws {
        var world = ClusterWorld.withDesigns()
        world.apply(Self.put("x", "{}"))
        let bucket = try #require(world.state.bucket(named: "b"))
        let first = try #require(bucket.designDocument(named: "x")).revision
        #expect(world.apply(Self.put("x", #"{"a":1}"#, was: first)) == Self.changed)
        let late = Self.put("x", #"{"a":2}"#, was: first)
        #expect(world.apply(late) == .refused(.changedMeanwhile))
        #expect(world.apply(Self.put("y", "{}", was: first)) == .refused(.changedMeanwhile))
    }

    // MARK: Buckets

    @Test func flushKeepsDocumentsAndDeletionOfTheBucketRemovesThem() {
        var world = ClusterWorld.withDesigns()
        world.apply(Self.put("x"))
        let revision = world.state.bucket(named: "b")?.designRevision
        let flush = BucketStep(name: "b", uuid: "b-uuid", phase: .begin)
        #expect(world.apply(.flushBucket(flush)) == .applied([.bucketFlushed(name: "b")]))
        #expect(names(world) == ["_design/x"])
        #expect(world.state.bucket(named: "b")?.designRevision == revision)
        for phase in [BucketStep.Phase.begin, .end] {
            world.apply(.deleteBucket(BucketStep(name: "b", uuid: "b-uuid", phase: phase)))
        }
        #expect(world.apply(Self.put("x")) == .refused(.bucketUnknown))
        #expect(world.apply(Self.delete("x")) == .refused(.bucketUnknown))
        world.createBucket(replicas: 0, rows: [[n(1)]])
        #expect(names(world) == [])
        #expect(world.state.designBytes == 0)
    }

    /// A request that waited while its bucket was deleted and created again.
    @Test func designDocumentForUnknownBucketUUIDIsRefused() {
        var world = ClusterWorld.withDesigns()
        #expect(world.apply(Self.put("x", bucket: "b")) == .refused(.bucketUnknown))
        #expect(world.apply(Self.put("x", bucket: "other")) == .refused(.bucketUnknown))
    }

    // MARK: Limits

    @Test func documentBeyondItsSizeIsRefused() {
        var world = ClusterWorld.withDesigns()
        let most = Limits.designDocumentBytesMax
        #expect(world.apply(Self.put("x", Self.text(bytes: most))) == Self.changed)
        let large = Self.put("y", Self.text(bytes: most + 1))
        #expect(world.apply(large) == .refused(.designDocumentTooLarge))
        let long = Self.put(String(repeating: "n", count: 243))
        #expect(world.apply(long) == .refused(.designDocumentTooLarge))
    }

    /// Two nodes check their requests against one state, and send both: the sum of both is too large.
    @Test func secondDocumentBeyondTheSumIsRefused() throws {
        var world = ClusterWorld.withDesigns()
        world.createBucket("other", replicas: 0, rows: [[n(1)]])
        let quarter = Limits.designDocumentsBytesMax / 4 - Limits.designOverheadBytes - 1
        for name in ["1", "2"] {
            world.apply(Self.put(name, Self.text(bytes: quarter)))
        }
        world.apply(Self.put("3", Self.text(bytes: quarter - 1)))
        let rivals = ["4", "5"].map { name in
            DesignDocumentChange(
                bucket: "other-uuid",
                name: name,
                body: Array(Self.text(bytes: quarter).utf8)
            )
        }
        let before = world.state
        for rival in rivals { #expect(before.refusal(of: rival) == nil) }
        let first = world.apply(.putDesignDocument(rivals[0]))
        #expect(first == .applied([.designDocumentsChanged(bucket: "other")]))
        #expect(world.state.designBytes == Limits.designDocumentsBytesMax - 1)
        #expect(world.apply(.putDesignDocument(rivals[1])) == .refused(.designDocumentsTooLarge))
        // Also where a document grows; a shorter one leaves room again.
        let grown = Self.put("3", Self.text(bytes: quarter + 1))
        #expect(world.apply(grown) == .refused(.designDocumentsTooLarge))
        #expect(world.apply(Self.put("3", Self.text(bytes: quarter))) == Self.changed)
        #expect(world.state.designBytes == Limits.designDocumentsBytesMax)
        #expect(world.apply(Self.put("3", "{}")) == Self.changed)
        #expect(world.apply(Self.put("6", "{}")) == Self.changed)
    }

    /// Two nodes check their requests against one state, and send both.
    @Test func secondDocumentBeyondTheNumberOfViewsIsRefused() throws {
        var world = ClusterWorld.withDesigns()
        // Braces in strings do not count.
        let brace = "\u{7b}"
        func text(_ count: Int) -> String {
            let views = (0..<count).map { "\"v\($0)\":{\"map\":\"\(brace)\"}" }
            return "{\"views\":{" + views.joined(separator: ",") + "}}"
        }
        for name in ["1", "2", "3"] { world.apply(Self.put(name, text(250))) }
        let rivals = ["4", "5"].map { name in
            DesignDocumentChange(bucket: "b-uuid", name: name, body: Array(text(200).utf8))
        }
        let before = world.state
        for rival in rivals { #expect(before.refusal(of: rival) == nil) }
        #expect(world.apply(.putDesignDocument(rivals[0])) == Self.changed)
        #expect(world.apply(.putDesignDocument(rivals[1])) == .refused(.tooManyViews))
        #expect(world.apply(Self.put("5", text(51))) == .refused(.tooManyViews))
        #expect(world.apply(Self.put("5", text(50))) == Self.changed)
        #expect(world.apply(Self.put("1", text(249))) == Self.changed)
    }

    @Test(arguments: [
        ("{}", 0), (#"{"views":{}}"#, 0), (#"{"views":{"a":{},"b":{"map":"m"}}}"#, 2),
        (#"{"views":{"a{\"{":{"map":"{\\"}},"options":{"x":1}}"#, 1),
        (#"{"views":{"a":{"x":{"y":{}}}},"list":[{}]}"#, 2), ("}}}{", 0), ("\"{{{", 0),
    ])
    func viewsAreCountedByBracesOutsideOfStrings(_ text: String, _ count: Int) {
        #expect(DesignDocument.viewCount(of: Array(text.utf8)) == count)
    }

    /// Small documents cost a node more than their text.
    @Test func emptyDocumentsAreCountedWithTheirOverhead() {
        var world = ClusterWorld.withDesigns()
        world.apply(Self.put("x"))
        #expect(world.state.designBytes == 1 + 2 + Limits.designOverheadBytes)
    }

    // MARK: Encoding

    @Test func stateWithDesignDocumentsSurvivesItsEncoding() {
        var world = ClusterWorld.withDesigns()
        world.createBucket("a", replicas: 0, rows: [[n(1)]])
        world.apply(Self.put("x", #"{"views":{"v":{"map":"m","reduce":"_sum"}}}"#))
        world.apply(Self.put("dev_\u{1F600}", "{}"))
        world.apply(Self.put("x", #"{"views":{}}"#))
        guard case .state(let decoded) = ClusterState.decode(world.state.encoded()) else {
            Issue.record("not decoded")
            return
        }
        #expect(decoded == world.state)
        #expect(decoded.bucket(named: "b")?.designDocument(named: "x")?.revision.number == 2)
        #expect(decoded.encoded() == world.state.encoded())
    }

    @Test func commandsSurviveTheirEncoding() {
        let revision = DesignRevision(number: 0x0102_0304, digest: 0x9bdf_8353)
        let commands = [
            Self.put("x", #"{"views":{}}"#), Self.put("", ""), Self.put("x", "{}", was: revision),
            Self.delete("x"), Self.delete("\u{e9}"),
        ]
        for command in commands {
            let envelope = ClusterEnvelope(proposer: n(1), boot: 1, number: 1, command: command)
            let bytes = envelope.encoded
            #expect((try? ClusterEnvelope(decoding: bytes)) == envelope)
            #expect((try? ClusterEnvelope(decoding: bytes + [0])) == nil)
            for length in 0..<bytes.count {
                #expect((try? ClusterEnvelope(decoding: Array(bytes.prefix(length)))) == nil)
            }
        }
    }
}

extension ClusterWorld {
    /// One node with bucket `b`.
    static func withDesigns() -> ClusterWorld {
        var world = ClusterWorld(nodes: 1)
        world.createBucket(replicas: 0, rows: [[n(1)]])
        return world
    }
}
