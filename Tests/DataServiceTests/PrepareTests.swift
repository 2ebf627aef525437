import Bytes
import DataService
import Engine
import Testing
import Vocabulary

/// Replication and persistence of prepares, over real sockets and files.
///
/// The tests prepare, commit and abort directly in the engine; the decision is tested elsewhere.
@Suite(.serialized) struct PrepareTests {
    private func pair(_ type: BucketType = .persistent) throws -> ClusterWorld {
        let world = try ClusterWorld(nodes: 2)
        try world.open(world.settings("a", type), world.map("a", index: 1) { _ in [1, 2] })
        return world
    }

    private func expectEqual(_ world: ClusterWorld, _ what: String) {
        world.eventually(what) {
            (0..<8).allSatisfy { number in
                world[1].prepares("a", number) == world[2].prepares("a", number)
                    && world[1].documents("a", number) == world[2].documents("a", number)
            }
        }
    }

    @Test(arguments: [BucketType.persistent, .ephemeral])
    func preparesCommitsAndAbortsAreReplicated(_ type: BucketType) throws {
        let world = try pair(type)
        world[1].write(0..<100, "a")
        var prepares: [PreparedKey] = []
        for key in 50..<150 { prepares.append(try world[1].prepare("key\(key)", "new", "a")) }
        expectEqual(world, "the copy has the prepares")
        #expect((0..<8).reduce(0) { $0 + world[2].prepares("a", $1).count } == 100)
        for (index, prepare) in prepares.enumerated() where index % 3 > 0 {
            world[1].complete(prepare, commits: index % 3 == 1, "a")
        }
        expectEqual(world, "the copy has the outcomes")
        #expect((0..<8).reduce(0) { $0 + world[2].prepares("a", $1).count } == 34)
    }

    /// An abort leaves no record on disk: a scan begins with the list of outstanding prepares
    /// instead.
    @Test func replicaThatMissedAbortRemovesPrepareAfterScan() throws {
        let world = try pair()
        world[1].write(0..<400, "a", size: 300)
        var prepares: [PreparedKey] = []
        for key in 0..<60 { prepares.append(try world[1].prepare("key\(key)", "new", "a")) }
        expectEqual(world, "the copy has the prepares")
        world.eventually("the copy has persisted the prepares") { world[2].isPersisted("a") }
        world.stop(2)
        for (index, prepare) in prepares.enumerated() where index % 3 > 0 {
            world[1].complete(prepare, commits: index % 3 == 1, "a")
        }
        world[1].write(100..<300, "a", size: 300, round: 1)
        world.eventually("the outcomes are persisted") { world[1].isPersisted("a") }
        world[1].ejectAll("a")
        try world.start(2)
        let map = world.map("a", index: 1) { _ in [1, 2] }
        try world[2].service.open(world.settings("a"), map, as: NodeNumber(2), isNew: false)
        world.eventually("the copy's prepares are the active one's") {
            (0..<8).allSatisfy { world[1].prepares("a", $0) == world[2].prepares("a", $0) }
        }
        #expect(!world[2].logged("Rebuilding"))
        #expect((0..<8).reduce(0) { $0 + world[2].prepares("a", $1).count } == 20)
    }

    @Test func preparesSurviveRestartAndAreInherited() throws {
        let world = try ClusterWorld(nodes: 1)
        // The second copy never starts, so that the prepares cannot be decided.
        let map = world.map("a", index: 1) { _ in [1, 2] }
        try world[1].service.open(world.settings("a"), map, as: NodeNumber(1), isNew: true)
        world[1].write(0..<20, "a")
        let kept = try world[1].prepare("key1", "kept", "a")
        let aborted = try world[1].prepare("key2", "aborted", "a")
        world.eventually("the prepares are persisted") { world[1].isPersisted("a") }
        world[1].complete(aborted, commits: false, "a")
        world.stop(1)
        try world.start(1)
        try world[1].service.open(world.settings("a"), map, as: NodeNumber(1), isNew: false)
        world.eventually("everything is loaded") {
            (0..<8).allSatisfy { world[1].copy("a", $0)?.withCore { $0.isLoaded } ?? false }
        }
        let found = (0..<8).flatMap { number in
            world[1].copy("a", number)?.withCore { $0.outstandingPrepares } ?? []
        }
        #expect(found.map(\.seqno) == [kept.seqno])
        #expect(found.map(\.isInherited) == [true] && found.map(\.level) == [.majority])
        // Keys that may have been committed are neither read nor overwritten.
        #expect(!world[1].write("key1", "x", "a"))
        #expect(world[1].write("key2", "x", "a"))
        world[1].complete(kept, commits: true, "a")
        #expect(world[1].write("key1", "x", "a"))
    }

    @Test func preparesSurviveRestartAndAreCommittedBySingleCopy() throws {
        let world = try ClusterWorld(nodes: 1)
        let map = world.map("a", index: 1) { _ in [1] }
        try world.open(world.settings("a"), map)
        world[1].write(0..<20, "a")
        let kept = try world[1].prepare("key1", "kept", "a")
        let aborted = try world[1].prepare("key2", "aborted", "a")
        world.eventually("the prepares are persisted") { world[1].isPersisted("a") }
        world[1].complete(aborted, commits: false, "a")
        world.stop(1)
        try world.start(1)
        try world[1].service.open(world.settings("a"), map, as: NodeNumber(1), isNew: false)
        // A client may have seen the prepares: with no other copy left they are committed at once.
        world.eventually("the prepares are committed") {
            (0..<8).allSatisfy { number in
                world[1].copy("a", number)?.withCore { $0.isLoaded && !$0.hasPrepares } ?? false
            }
        }
        let found = world[1].documents("a", kept.number)[Array("key1".utf8)]
        #expect(found?.value == Array("kept".utf8))
        let other = world[1].documents("a", aborted.number)[Array("key2".utf8)]
        #expect(other != nil && other?.value != Array("aborted".utf8))
        #expect(world[1].write("key1", "x", "a") && world[1].write("key2", "x", "a"))
    }
}

/// A prepare and its vBucket.
struct PreparedKey {
    let number: Int
    let seqno: Seqno
}

extension ClusterNode {
    /// The prepares of a copy by key: their seqnos, CASes and values.
    func prepares(_ name: String, _ number: Int) -> [[UInt8]: Held] {
        var found: [[UInt8]: Held] = [:]
        copy(name, number)?.withCore { core in
            core.forEachPrepare { item in
                found[item.key.bytes] = Held(
                    seqno: item.seqno,
                    cas: item.cas,
                    isDeleted: item.isDeleted,
                    value: item.value.bytes
                )
            }
        }
        return found
    }

    func prepare(_ key: String, _ value: String, _ name: String) throws -> PreparedKey {
        let bucket = try #require(service.bucket(named: name))
        let bytes = Array(key.utf8)
        let id = VBucketID(ofKey: bytes, count: bucket.engine.count)
        let vBucket = try #require(bucket.engine[id.number])
        var turn = turn
        turn.durability = .majority
        let outcome = bytes.withUnsafeBytes { key in
            Array(value.utf8).withUnsafeBytes { value in
                let request = StoreRequest(
                    key: ByteView(key),
                    hash: bucket.engine.hash(ByteView(key)),
                    value: ByteView(value),
                    flags: 0,
                    expiry: 0,
                    datatype: [],
                    cas: .none,
                    mode: .set,
                    preservesExpiry: false
                )
                return vBucket.withCore { $0.store(request, turn) }
            }
        }
        var prepared: PreparedKey?
        if case .prepared(let stored) = outcome {
            prepared = PreparedKey(number: Int(id.number), seqno: stored.seqno)
            if stored.wakesFlusher || stored.wakesStreams { bucket.recordChange(id) }
        }
        return try #require(prepared, "\(key) ended with \(outcome)")
    }

    func complete(_ prepare: PreparedKey, commits: Bool, _ name: String) {
        let turn = turn
        let outcome = copy(name, prepare.number)?.withCore { core in
            let fence = core.ownership.fence
            return commits
                ? core.commit(prepare.seqno, fence: fence, turn)
                : core.abort(prepare.seqno, fence: fence, turn)
        }
        switch outcome {
        case .done(let stored):
            guard stored.wakesFlusher || stored.wakesStreams else { return }
            service.bucket(named: name)?.recordChange(VBucketID(UInt16(prepare.number)))
        default:
            Issue.record("completing \(prepare.seqno) ended with \(String(describing: outcome))")
        }
    }
}
