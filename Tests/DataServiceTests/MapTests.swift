import Bytes
import DataService
import TestWorld
import Testing
import Vocabulary
import Wire

/// A node with only some of the vBuckets: requests for other nodes' vBuckets are refused with the
/// map, replicas are read, changed maps are pushed, and nothing is served without a lease.
@Suite struct MapTests {
    let world = TestWorld()
    private static let own = NodeNumber(1)

    init() throws {
        let settings = TestWorld.settings("guests")
        // Even vBuckets are active here, odd ones replicas; those of the last quarter are elsewhere.
        try world.service.open(settings, MapTests.map(index: 1), as: MapTests.own, isNew: true)
        world.service.publish(MapTests.configuration(revision: 1), ofBucket: "guests")
    }

    private static func map(index: UInt64, fence: UInt64 = 1) -> BucketAssignment {
        BucketAssignment(
            name: "guests",
            uuid: TestWorld.settings("guests").uuid,
            index: index,
            vBuckets: (0..<64).map { number in
                let chain: [UInt16] = number >= 48 ? [2, 3] : number % 2 == 0 ? [1, 2] : [2, 1]
                return VBucketAssignment(
                    fence: fence,
                    stage: index,
                    chain: chain.map { NodeNumber($0) },
                    copies: 2
                )
            }
        )
    }

    private static func configuration(revision: Int64) -> RenderedConfiguration {
        let json = Array("{\"rev\":\(revision)}".utf8)
        return RenderedConfiguration(epoch: 1, revision: revision, json: json)
    }

    /// A key of a vBucket that `isWanted`.
    private func key(_ isWanted: (UInt16) -> Bool) -> String {
        (0...).lazy.map { "key\($0)" }.first { key in
            isWanted(VBucketID(ofKey: Array(key.utf8), count: 64).number)
        } ?? ""
    }

    private var active: String { key { $0 < 48 && $0 % 2 == 0 } }
    private var replica: String { key { $0 < 48 && $0 % 2 == 1 } }
    private var elsewhere: String { key { $0 >= 48 } }

    /// OBSERVE of one key.
    private func observe(_ key: String) -> [UInt8] {
        let number = VBucketID(ofKey: Array(key.utf8), count: 64).number
        let value = big(number) + big(UInt16(key.utf8.count)) + Array(key.utf8)
        return frame(.observe, value: value)
    }

    @Test func commandsForOtherNodesVBucketsAreAnsweredWithMap() {
        let client = world.client(of: "guests")
        #expect(client.ask(Ask.set(active, "x")).map(\.status) == [0])
        let number = VBucketID(ofKey: Array(replica.utf8), count: 64).number
        for key in [replica, elsewhere] {
            let requests: [[UInt8]] = [
                Ask.get(key), Ask.set(key, "x"), Ask.on(.add, key, extras: big(UInt64(0))),
                Ask.on(.replace, key, extras: big(UInt64(0))), Ask.on(.delete, key),
                Ask.counter(0x05, key, delta: 1), Ask.on(.append, key, [1]),
                Ask.on(.prepend, key, [1]), Ask.on(.getLocked, key),
                Ask.on(.touch, key, extras: big(UInt32(9))),
                Ask.on(.getAndTouch, key, extras: big(UInt32(9))),
                Ask.on(.unlock, key, [], extras: [], 0, 7), Ask.on(.getMeta, key),
            ]
            for request in requests + (key == elsewhere ? [observe(key)] : []) {
                let replies = client.ask(request)
                #expect(replies.map(\.status) == [7], "opcode \(request[1])")
                #expect(replies.first?.text == "{\"rev\":1}" && replies.first?.datatype == 1)
            }
        }
        // A replica reports its progress: clients count the copies that have a write.
        let observed = client.ask(frame(.observeSeqno, value: big(UInt64(1)), vBucket: number))
        #expect(observed.map(\.status) == [0])
        #expect(observed.first?.value.count == 27)
        #expect(observed.first?.value.suffix(16).allSatisfy { $0 == 0 } == true)
        // An active copy does not answer for a history that it does not have.
        let here = VBucketID(ofKey: Array(active.utf8), count: 64).number
        let unknown = client.ask(frame(.observeSeqno, value: big(UInt64(1)), vBucket: here))
        #expect(unknown.map(\.status) == [1])
        let gone = VBucketID(ofKey: Array(elsewhere.utf8), count: 64).number
        let refused = client.ask(frame(.observeSeqno, value: big(UInt64(1)), vBucket: gone))
        #expect(refused.map(\.status) == [7])
        #expect(client.ask(Ask.on(.getReplica, elsewhere)).map(\.status) == [7])
        #expect(client.ask(Ask.on(.getReplica, active)).map(\.status) == [7])
        // It has received nothing yet, so it cannot know whether the document exists.
        #expect(client.ask(Ask.on(.getReplica, replica)).map(\.status) == [0x86])
        #expect(client.ask(observe(replica)).map(\.status) == [0x86])
    }

    /// The features are those of clients that know only configurations over HTTP, and of `gocb` 1.
    @Test(arguments: [([], ""), ([2, 6, 7], "{\"rev\":1}")] as [([UInt16], String)])
    func clientsOfHelloGetTheMapWithoutJSON(_ features: [UInt16], _ text: String) throws {
        let client = Client(world, reactor: 0)
        client.send((features.isEmpty ? [] : Ask.hello(features)) + Ask.guest(of: "guests"))
        #expect(client.replies().allSatisfy { $0.status == 0 })
        let reply = try #require(client.ask(Ask.get(elsewhere)).first)
        #expect(reply.status == 7 && reply.text == text && reply.datatype == 0)
        // A client of streams requests all vBuckets at once, and reads no map here.
        let number = VBucketID(ofKey: Array(elsewhere.utf8), count: 64).number
        let name = Array("feed".utf8)
        let opening = frame(.dcpOpen, key: name, extras: big(UInt32(0)) + big(UInt32(1)))
        #expect(client.ask(opening).map(\.status) == [0])
        let extras = [UInt8](repeating: 0, count: 48)
        let stream = frame(.dcpStreamRequest, extras: extras, vBucket: number)
        let refused = try #require(client.ask(stream).first)
        #expect(refused.status == 7 && refused.value.isEmpty)
    }

    @Test func vBucketSeqnosAreListedByState() {
        let client = world.client(of: "guests")
        _ = client.ask(Ask.set(active, "x"))
        let all = client.ask(frame(.getAllVBucketSeqnos)).first?.value ?? []
        #expect(all.count == 48 * 10)
        func seqnos(_ state: UInt32) -> [Reply] {
            client.ask(frame(.getAllVBucketSeqnos, extras: big(state)))
        }
        let some = seqnos(1).first?.value ?? []
        #expect(some.count == 24 * 10)
        let number = VBucketID(ofKey: Array(active.utf8), count: 64).number
        let entry = stride(from: 0, to: some.count, by: 10).map { Array(some[$0..<$0 + 10]) }
            .first { Array($0.prefix(2)) == big(number) }
        #expect(entry == big(number) + big(UInt64(1)))
        #expect(seqnos(9).map(\.status) == [4])
    }

    // MARK: Pushes

    private static let duplex: UInt16 = 0x0c
    private static let push: UInt16 = 0x0d
    private static let briefPush: UInt16 = 0x1f

    private func pushed(
        _ revision: Int64,
        _ bucket: String,
        _ value: String,
        datatype: UInt8 = 1
    ) -> [UInt8] {
        let key = Array(bucket.utf8)
        let body = big(Int64(1)) + big(revision) + key + Array(value.utf8)
        return [0x82, 0x01] + big(UInt16(key.count)) + [16, value.isEmpty ? 0 : datatype, 0, 0]
            + big(UInt32(body.count)) + big(UInt32(0)) + big(UInt64(0)) + body
    }

    @Test func changedMapIsPushedToSubscribedClients() {
        let features = Features.usual + [MapTests.duplex]
        let notified = world.client(of: "guests", features: features + [MapTests.push])
        let brief = world.client(of: "guests", features: features + [MapTests.briefPush])
        let unsubscribed = world.client(of: "guests", features: features)
        world.service.publish(MapTests.configuration(revision: 2), ofBucket: "guests")
        for client in [notified, brief, unsubscribed] { client.settle() }
        #expect(notified.received == pushed(2, "guests", "{\"rev\":2}"))
        #expect(brief.received == pushed(2, "guests", ""))
        #expect(unsubscribed.received.isEmpty)
        // The same map again is not pushed; neither is a change of the cluster's configuration.
        world.service.publish(MapTests.configuration(revision: 2), ofBucket: "guests")
        world.service.publish(global: MapTests.configuration(revision: 3))
        notified.settle()
        #expect(notified.received == pushed(2, "guests", "{\"rev\":2}"))
    }

    @Test func mapIsPushedWithoutDatatypeToClientThatDidNotAgreeToJSON() {
        let client = world.client(of: "guests", features: [MapTests.duplex, MapTests.push])
        world.service.publish(MapTests.configuration(revision: 2), ofBucket: "guests")
        client.settle()
        #expect(client.received == pushed(2, "guests", "{\"rev\":2}", datatype: 0))
    }

    @Test func quickMapChangesArePushedTogether() {
        let client = world.client(
            of: "guests",
            features: Features.usual + [MapTests.duplex, MapTests.push]
        )
        for revision in Int64(2)...20 {
            world.service.publish(MapTests.configuration(revision: revision), ofBucket: "guests")
            client.settle()
        }
        #expect(client.received == pushed(2, "guests", "{\"rev\":2}"))
        world.pass(milliseconds: 100)
        client.settle()
        let both = pushed(2, "guests", "{\"rev\":2}") + pushed(20, "guests", "{\"rev\":20}")
        #expect(client.received == both)
        world.pass(milliseconds: 500)
        client.settle()
        #expect(client.received == both)
    }

    /// The cluster's map has another form, and the client would apply it to the bucket.
    @Test func clientOfDeletedBucketGetsNoMapOfTheCluster() throws {
        let features = Features.usual + [MapTests.duplex, MapTests.push]
        let client = world.client(of: "guests", features: features)
        world.service.publish(global: MapTests.configuration(revision: 1))
        try world.service.delete("guests")
        client.settle()
        #expect(client.ask(frame(.getClusterConfig)).map(\.status) == [8])
        world.service.publish(global: MapTests.configuration(revision: 3))
        client.settle()
        #expect(client.received.isEmpty)
        // A bucket that is created again under its name is selected, with its own map.
        try world.service.open(TestWorld.settings("guests"))
        world.service.publish(MapTests.configuration(revision: 4), ofBucket: "guests")
        client.settle()
        #expect(client.received == pushed(4, "guests", "{\"rev\":4}"))
    }

    @Test func clientOfBucketThatIsNotOpenHereGetsItsMap() throws {
        let features = Features.usual + [MapTests.duplex, MapTests.push]
        world.admitAdministrator()
        let client = Client(world)
        let login = Ask.hello(features) + Ask.plain("Administrator", "secret")
        let statuses = client.ask(login) + client.ask(Ask.select("guests"))
        #expect(statuses.map(\.status) == [0, 0, 0])
        // The bucket's own logins may be those of another bucket of that name.
        let guest = world.client(of: "guests", features: features)
        try world.service.delete("guests")
        client.settle()
        guest.settle()
        world.service.publish(MapTests.configuration(revision: 5), ofBucket: "guests")
        guest.settle()
        #expect(guest.received.isEmpty)
        #expect(guest.ask(frame(.getClusterConfig)).map(\.status) == [8])
        client.settle()
        #expect(client.received == pushed(5, "guests", "{\"rev\":5}"))
        _ = client.messages()
        let reply = try #require(client.ask(frame(.getClusterConfig)).first)
        #expect(reply.status == 0 && reply.text == "{\"rev\":5}")
        let known = frame(.getClusterConfig, extras: big(Int64(1)) + big(Int64(5)))
        #expect(client.ask(known).map(\.value) == [[]])
    }

    /// 0x08 would let clients give up the bucket.
    @Test func requestsForBucketThatIsNotOpenHereAreRefusedForNow() throws {
        world.admitAdministrator()
        let client = Client(world)
        let login = Ask.hello(Features.usual) + Ask.plain("Administrator", "secret")
        let statuses = client.ask(login) + client.ask(Ask.select("guests"))
        #expect(statuses.map(\.status) == [0, 0, 0])
        let extras = big(UInt32(0)) + big(UInt32(0)) + [UInt8](repeating: 0, count: 40)
        let named = frame(.observe, value: big(UInt16(0)) + big(UInt16(1)) + [0x6b])
        let ofVBuckets = [
            Ask.get("k"), Ask.set("k", "v"), Ask.on(.getMeta, "k"),
            Ask.on(.subdocGet, "k", Array("p".utf8), extras: [0, 1, 0]),
            frame(.observeSeqno, value: big(UInt64(0))), named,
            frame(.dcpStreamRequest, extras: extras), frame(.dcpGetFailoverLog),
            frame(.getFailoverLog),
        ]
        let others = [
            frame(.getAllVBucketSeqnos), frame(.getRandomKey), frame(.stat),
            frame(.collectionsGetManifest),
            frame(.dcpOpen, key: Array("c".utf8), extras: big(UInt32(0)) + big(UInt32(1))),
        ]
        try world.service.delete("guests")
        for request in ofVBuckets + others {
            #expect(client.ask(request).map(\.status) == [8], "deleted: opcode \(request[1])")
        }
        world.service.publish(MapTests.configuration(revision: 5), ofBucket: "guests")
        for request in ofVBuckets {
            let reply = try #require(client.ask(request).first)
            #expect(reply.status == 7 && reply.text == "{\"rev\":5}", "opcode \(request[1])")
            #expect(reply.datatype == 1)
        }
        for request in others {
            let reply = try #require(client.ask(request).first)
            #expect(reply.status == 0x86, "opcode \(request[1])")
        }
        // Once the bucket is open, the same connection is served.
        let settings = TestWorld.settings("guests")
        try world.service.open(settings, MapTests.map(index: 2), as: MapTests.own, isNew: true)
        world.settle()
        #expect(client.ask(frame(.getAllVBucketSeqnos)).map(\.status) == [0])
    }

    // MARK: Hand over

    @Test func writesWaitDuringHandOverAndContinueIfItFails() {
        let client = world.client(of: "guests")
        #expect(client.ask(Ask.set(active, "x")).map(\.status) == [0])
        let outcome = Guarded<HandOverOutcome?>(nil)
        let number = VBucketID(ofKey: Array(active.utf8), count: 64)
        world.service.handOver("guests", number, fence: 1) { found in
            outcome.withLock { $0 = found }
        }
        // Reads continue; a write waits, since no replica follows that could take over.
        #expect(client.ask(Ask.get(active)).map(\.text) == ["x"])
        client.send(Ask.set(active, "y"))
        client.settle()
        #expect(client.replies().isEmpty)
        world.pass(milliseconds: 249)
        client.settle()
        #expect(client.replies().isEmpty)
        world.pass(milliseconds: 1)
        client.settle()
        #expect(client.replies().map(\.status) == [0])
        #expect(outcome.withLock { $0 } == .busy)
        #expect(client.ask(Ask.get(active)).map(\.text) == ["y"])
    }

    @Test func writesWaitingDuringSuccessfulHandOverAreRefused() {
        let client = world.client(of: "guests")
        let number = VBucketID(ofKey: Array(active.utf8), count: 64)
        world.service.handOver("guests", number, fence: 1) { _ in }
        client.send(Ask.set(active, "y"))
        client.settle()
        #expect(client.replies().isEmpty)
        var map = MapTests.map(index: 2)
        map.vBuckets[Int(number.number)].fence = 2
        map.vBuckets[Int(number.number)].chain = [NodeNumber(2), NodeNumber(1)]
        world.service.applyMap(map, as: MapTests.own)
        client.settle()
        #expect(client.replies().map(\.status) == [7])
    }

    // MARK: The lease

    @Test func onlyReplicasAreReadWithoutLease() {
        let client = world.client(of: "guests")
        _ = client.ask(Ask.set(active, "x"))
        let now = world.time.monotonicNanoseconds()
        world.service.setLease(endNanoseconds: now + 1_000_000_000)
        #expect(client.ask(Ask.get(active)).map(\.status) == [0])
        world.jump(milliseconds: 1_000)
        #expect(client.ask(Ask.get(active)).map(\.status) == [7])
        #expect(client.ask(Ask.set(active, "y")).map(\.status) == [7])
        #expect(client.ask(Ask.on(.getReplica, replica)).map(\.status) == [0x86])
        #expect(client.ask(observe(replica)).map(\.status) == [0x86])
        #expect(client.ask(frame(.getClusterConfig)).map(\.status) == [0])
        #expect(!client.isClosed)
        world.service.setLease(endNanoseconds: .max)
        #expect(client.ask(Ask.get(active)).map(\.text) == ["x"])
    }
}
