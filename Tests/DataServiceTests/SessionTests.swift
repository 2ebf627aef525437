import DataService
import Engine
import Seams
import TestWorld
import Testing
import Vocabulary

/// Permissions, and what connections learn about themselves and the cluster.
@Suite struct SessionTests {
    let world = TestWorld()

    init() throws {
        try world.service.open(TestWorld.settings("guests"))
        var closed = TestWorld.settings("closed")
        closed.passwordless = .none
        try world.service.open(closed)
    }

    private func plain(_ user: String, _ password: String) -> [UInt8] {
        frame(0x21, key: Array("PLAIN".utf8), value: [0] + Array("\(user)\0\(password)".utf8))
    }

    @Test func connectionWithoutLoginMayOnlyNegotiate() {
        let client = Client(world)
        let allowed = [
            frame(0x0a), frame(0x0b), frame(0x20), Ask.hello([]), frame(0xfe, value: [0, 1]),
        ]
        for request in allowed { #expect(client.ask(request).map(\.status) == [0]) }
        let refused = [
            Ask.get("k"), Ask.set("k", "v"), frame(0x10), frame(0xb5),
            frame(0x89, key: Array("guests".utf8)), frame(0x91, value: big(UInt64(0))),
        ]
        for request in refused { #expect(client.ask(request).map(\.status) == [0x24]) }
    }

    @Test func documentCommandsNeedSelectedBucket() {
        world.admitAdministrator()
        let client = Client(world)
        #expect(client.ask(plain("Administrator", "wrong")).map(\.status) == [0x20])
        #expect(client.ask(plain("unknown", "secret")).map(\.status) == [0x20])
        #expect(client.ask(plain("Administrator", "")).map(\.status) == [0x20])
        #expect(client.ask(plain("Administrator", "secret")).map(\.status) == [0])
        #expect(client.ask(Ask.get("k")).map(\.status) == [8])
        #expect(client.ask(frame(0x89, key: Array("nothing".utf8))).map(\.status) == [0x24])
        #expect(client.ask(frame(0x89, key: Array("closed".utf8))).map(\.status) == [0])
        #expect(client.ask(Ask.get("k")).map(\.status) == [1])
    }

    @Test func loginBlocksLaterRequests() {
        world.admitAdministrator()
        let client = Client(world)
        client.send(
            Ask.hello([Features.unordered]) + plain("Administrator", "secret")
                + frame(0x89, key: Array("closed".utf8)) + Ask.get("k")
        )
        client.settle()
        #expect(client.replies().map(\.status) == [0, 0, 0, 1])
    }

    @Test func guestCannotSelectOtherBucket() {
        let client = world.client(of: "guests")
        #expect(client.ask(frame(0x89, key: Array("closed".utf8))).map(\.status) == [0x24])
        #expect(client.ask(Ask.set("k", "v")).map(\.status) == [0])
        #expect(Client(world).ask(Ask.guest(of: "closed")).map(\.status) == [0x20])
    }

    @Test func guestLosesBucketRecreatedWithPassword() throws {
        let client = world.client(of: "guests")
        try world.service.delete("guests")
        var settings = TestWorld.settings("guests")
        settings.passwordless = .none
        try world.service.open(settings)
        #expect(client.ask(Ask.get("k")).map(\.status) == [8])
        #expect(client.ask(frame(0x89, key: Array("guests".utf8))).map(\.status) == [0x24])
    }

    /// However many requests were refused meanwhile.
    @Test(arguments: [0, 3])
    func recreatedBucketIsFoundByConnectionsThatSelectedIt(_ questions: Int) throws {
        let client = world.client(of: "guests")
        try world.service.delete("guests")
        for _ in 0..<questions { #expect(client.ask(Ask.get("k")).map(\.status) == [8]) }
        var settings = TestWorld.settings("guests")
        settings.uuid = "fedcba9876543210fedcba9876543210"
        try world.service.open(settings)
        #expect(client.ask(Ask.set("k", "new")).map(\.status) == [0])
        #expect(client.ask(Ask.get("k")).map(\.text) == ["new"])
    }

    @Test func selectionOfUnopenedBucketIsToBeRetried() {
        let select = frame(0x89, key: Array("coming".utf8))
        let guest = world.client(of: "guests")
        #expect(guest.ask(select).map(\.status) == [0x24])
        world.service.publish(.init(epoch: 1, revision: 1, json: [0x7b, 0x7d]), ofBucket: "coming")
        #expect(Client(world).ask(select).map(\.status) == [0x24], "without a login")
        #expect(guest.ask(select).map(\.status) == [0x24], "a guest of another bucket")
        world.admitAdministrator()
        let client = Client(world)
        let words = Array("\0Administrator\0secret".utf8)
        let login = frame(0x21, key: Array("PLAIN".utf8), value: words)
        #expect(client.ask(login).map(\.status) == [0])
        #expect(client.ask(select).map(\.status) == [1])
        #expect(client.ask(frame(0x89, key: Array("none".utf8))).map(\.status) == [0x24])
    }

    @Test func largeFirstRequestIsAcceptedWithoutNeededLogin() throws {
        try world.service.open(TestWorld.settings("default"))
        let value = String(repeating: "v", count: 100_000)
        let client = Client(world)
        #expect(client.ask(Ask.set("large", value)).map(\.status) == [0])
        #expect(client.ask(Ask.get("large")).map(\.text) == [value])
    }

    @Test func passwordlessDefaultBucketNeedsNoLogin() throws {
        let client = Client(world)
        #expect(client.ask(Ask.get("k")).map(\.status) == [0x24])
        try world.service.open(TestWorld.settings("default"))
        #expect(client.ask(Ask.get("k")).map(\.status) == [1])
        #expect(client.ask(frame(0x89, key: Array("guests".utf8))).map(\.status) == [0x24])
    }

    @Test func repeatedHelloReplacesFeatures() {
        let client = Client(world)
        let asked = Ask.hello([0x0b, 0x13, 0x7777, 0x04])
        #expect(client.ask(asked).first?.value == [0, 0x0b, 0, 4])
        #expect(client.ask(Ask.hello([])).first?.value == [])
        #expect(client.ask(frame(0x1f, value: [0, 1, 2])).map(\.status) == [4])
    }

    /// Gateways look for attributes (0x06) in the first two features of the answer only, and ask for
    /// them after 0x0001, which servers do not echo (sync-gateway-mount.md, trap 1).
    @Test func helloNeverEchoesDatatype() {
        let client = Client(world)
        #expect(client.ask(Ask.hello([1, 7, 6])).first?.value == [0, 7, 0, 6])
        let all = (UInt16(0)...0x40).map { $0 }
        let granted = client.ask(Ask.hello(all)).first?.value ?? []
        let codes = stride(from: 0, to: granted.count, by: 2).map { granted[$0 + 1] }
        #expect(!codes.contains(1) && codes.contains(6) && codes.contains(0x0a))
        #expect(codes == codes.sorted(), "the order is that of the request")
    }

    /// HELLO's own answer still has the earlier format, and later frames of the same read begin
    /// with it.
    @Test func durationIsSentOnlyAfterHelloAgreedToTracing() {
        let client = Client(world)
        world.pass(milliseconds: 60_000)
        client.send(Ask.hello([Features.tracing]) + frame(0x0a))
        let replies = client.replies()
        #expect(replies.map(\.magic) == [0x81, 0x18])
        // The least duration, since no time passes.
        #expect(replies.last?.framing == [0x02, 0, 1])
    }

    /// A request that waits for the disk lasts as long as the read.
    @Test func waitingRequestIsTimedFromArrival() throws {
        try world.service.open(TestWorld.settings("stored", .persistent))
        let client = world.client(of: "stored", features: [Features.tracing])
        _ = client.ask(Ask.set("key", String(repeating: "value", count: 100)))
        world.pass(milliseconds: 500)
        #expect(world.eject("key", from: "stored"))
        world.lanes.hold("reader")
        client.send(Ask.get("key"))
        world.pass(milliseconds: 2_000)
        world.lanes.release("reader")
        client.settle()
        let framing = client.replies().first?.framing ?? []
        // Twice the microseconds, to the power of 1 / 1.74: of two seconds that is 6 224.
        let encoded = framing.dropFirst().reduce(0) { $0 << 8 | Int($1) }
        #expect(framing.count == 3 && encoded > 6_200)
    }

    @Test func tracedRepliesIncludeDuration() {
        let client = world.client(of: "guests", features: [Features.tracing])
        let reply = client.ask(Ask.get("k")).first
        #expect(reply?.magic == 0x18)
        #expect(reply?.framing.first == 0x02)
        #expect(reply?.status == 1)
    }

    @Test func errorMapIsNoNewerThanRequested() {
        let client = Client(world)
        for (asked, status) in [(UInt16(0), UInt16(4)), (1, 0), (2, 0), (9, 0)] {
            let reply = client.ask(frame(0xfe, value: big(asked))).first
            #expect(reply?.status == status)
            if asked == 1 { #expect(reply?.text.contains("\"version\":1,") == true) }
        }
        #expect(client.ask(frame(0xfe, value: [1])).map(\.status) == [4])
    }

    @Test func configurationIsSentOnlyToClientsWithoutIt() {
        let client = world.client(of: "guests")
        #expect(client.ask(frame(0xb5)).map(\.status) == [1])
        let json = Array("{}".utf8)
        world.service.publish(.init(epoch: 2, revision: 7, json: json), ofBucket: "guests")
        func known(_ epoch: Int64, _ revision: Int64) -> [UInt8] {
            frame(0xb5, extras: big(epoch) + big(revision))
        }
        #expect(client.ask(frame(0xb5)).map(\.value) == [json])
        #expect(client.ask(known(2, 6)).map(\.value) == [json])
        #expect(client.ask(known(1, 9)).map(\.value) == [json])
        #expect(client.ask(known(2, 7)).map(\.value) == [[]])
        #expect(client.ask(known(3, 0)).map(\.value) == [[]])
        #expect(client.ask(known(-1, -1)).map(\.value) == [json])
    }

    @Test func scramMessagesOutOfOrderAreInvalid() {
        let client = Client(world)
        let key = Array("SCRAM-SHA512".utf8)
        #expect(client.ask(frame(0x22, key: key, value: [1])).map(\.status) == [4])
        #expect(client.ask(frame(0x21, key: key, value: [1])).map(\.status) == [4])
        #expect(client.ask(frame(0x21, key: [0x58], value: [1])).map(\.status) == [0x20])
        let first = frame(0x21, key: key, value: Array("n,,n=user,r=abc".utf8))
        #expect(client.ask(first).map(\.status) == [0x21])
        // A failed proof is no login; and there is one attempt.
        #expect(client.ask(frame(0x22, key: key, value: [1])).map(\.status) == [0x20])
        #expect(client.ask(frame(0x22, key: key, value: [1])).map(\.status) == [4])
    }

    @Test func statsEndWithEmptyAnswer() {
        let client = world.client(of: "guests")
        let groups = [
            "", "memory", "uuid", "vbucket", "vbucket-seqno", "vbucket-details", "failovers",
            "failovers 1",
        ]
        for group in groups {
            let lines = client.ask(frame(0x10, key: Array(group.utf8), opaque: 4))
            #expect(lines.count > 1)
            #expect(lines.allSatisfy { $0.opaque == 4 && $0.status == 0 })
            #expect(lines.last?.key == [] && lines.last?.value == [])
            #expect(lines.dropLast().allSatisfy { !$0.key.isEmpty })
        }
        #expect(client.ask(frame(0x10, key: Array("x".utf8))).map(\.status) == [1])
    }

    @Test func statsOfOneVBucketHaveItsLinesOnly() {
        let client = world.client(of: "guests")
        func ask(_ group: String) -> [Reply] {
            client.ask(frame(0x10, key: Array(group.utf8)))
        }
        for group in ["vbucket-seqno", "vbucket-details"] {
            let names = ask("\(group) 1").dropLast().map { String(decoding: $0.key, as: UTF8.self) }
            #expect(names.count > 4)
            #expect(names.allSatisfy { $0 == "vb_1" || $0.hasPrefix("vb_1:") })
        }
        // Not a vBucket of this node; not a number; not a group.
        #expect(ask("vbucket-seqno 65535").map(\.status) == [7])
        #expect(ask("vbucket-seqno x").map(\.status) == [4])
        #expect(ask("vbucket-details 1 2").map(\.status) == [1])
        #expect(ask("vbucket-other").map(\.status) == [1])
        #expect(ask("failovers 65535").map(\.status) == [7])
        #expect(ask("failovers2").map(\.status) == [1])
    }

    @Test func failoversOfOneVBucketAreTheHistoriesOfItsLog() throws {
        let client = world.client(of: "guests")
        let lines = client.ask(frame(0x10, key: Array("failovers 1".utf8))).dropLast()
        let texts = lines.map { reply in
            [reply.key, reply.value].map { String(decoding: $0, as: UTF8.self) }
        }
        let bucket = try #require(world.service.bucket(named: "guests"))
        let current = try #require(bucket.engine[1]).withCore { $0.failoverLog.current }
        #expect(
            texts == [
                ["vb_1:num_entries", "1"],
                ["vb_1:0:id", String(current.uuid.value)],
                ["vb_1:0:seq", String(current.seqno.value)],
            ]
        )
    }

    @Test func onlyStatsOfDCPAcceptOptions() {
        let client = world.client(of: "guests")
        func ask(_ group: String, _ options: String) -> UInt16? {
            let request = frame(0x10, key: Array(group.utf8), value: Array(options.utf8))
            return client.ask(request).last?.status
        }
        #expect(ask("dcp", #"{"stream_format":"json"}"#) == 0)
        #expect(ask("dcp", "{") == 4)
        #expect(ask("vbucket", "{}") == 4)
        #expect(ask("", "{}") == 4)
    }

    /// As in a cluster of several nodes: documents of other nodes would be missed.
    @Test func refusingPlainListenerAnswersWithReason() throws {
        let world = TestWorld(plainBucket: "plain")
        try world.service.open(TestWorld.settings("plain"))
        let client = Client(world, isMemcachedListener: true)
        let set = frame(0x01, key: [0x6b], value: [0x31], extras: big(UInt64(0)))
        #expect(client.ask(set).map(\.status) == [0])
        world.service.servePlainClients(false)
        for request in [frame(0x00, key: [0x6b]), set, frame(0x08), frame(0x10)] {
            let replies = client.ask(request)
            #expect(replies.map(\.status) == [0x83])
            let text = String(decoding: replies.first?.value ?? [], as: UTF8.self)
            #expect(text.contains("several nodes") && text.contains("Use a Couchbase client."))
        }
        // Requests that do not concern documents are answered, so that a client can quit.
        #expect(client.ask(frame(0x0a)).map(\.status) == [0])
        #expect(Client(world, isMemcachedListener: true).ask(set).map(\.status) == [0x83])
        // Other listeners are not affected.
        #expect(world.client(of: "plain").ask(Ask.get("k")).map(\.status) == [0])
        world.service.servePlainClients(true)
        #expect(client.ask(frame(0x00, key: [0x6b])).map(\.value) == [[0x31]])
    }

    @Test func plainConnectionFindsBucketOnceOpened() throws {
        let world = TestWorld(plainBucket: "later")
        let client = Client(world, isMemcachedListener: true)
        #expect(client.ask(Ask.get("k")).map(\.status) == [8])
        try world.service.open(TestWorld.settings("later"))
        #expect(client.ask(frame(0x01, key: [0x6b], extras: big(UInt64(0)))).map(\.status) == [0])
        #expect(client.ask(frame(0x0c, key: [0x6b], vBucket: 999)).map(\.status) == [0])
        #expect(client.ask(frame(0x0c, key: [0x78])).map(\.key) == [[0x78]])
        #expect(client.ask(frame(0x08)).map(\.status) == [0])
        #expect(client.ask(frame(0x00, key: [0x6b])).map(\.status) == [1])
        #expect(client.ask(frame(0x18)).isEmpty)
        #expect(client.ask(frame(0x08, extras: big(UInt32(5)))).map(\.status) == [0x83])
        try world.service.delete("later")
        #expect(client.ask(frame(0x00, key: [0x6b])).map(\.status) == [8])
    }
}
