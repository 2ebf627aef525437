import Bytes
import Foundation
import Indexing
import LinuxPlatform
import Persistence
import Scripting
import Seams
import Synchronization
import TestSupport
import Testing
import ViewService
import Vocabulary

private typealias Version = MemoryChanges.Version

/// One index on a real file, with the real script program; changes come from lists in memory.
@Suite(.serialized) struct ViewIndexTests {
    private let world = IndexWorld()

    @Test func documentsAreMappedAndRowsFollowTheirChanges() throws {
        defer { world.stop() }
        world.changes.put("a", #"{"type":"user","age":3}"#)
        world.changes.put("b", #"{"type":"user","age":1}"#)
        world.changes.put("c", #"{"type":"dog","age":2}"#)
        let index = try world.index(
            "function (doc) { if (doc.type === 'user') emit(doc.age, doc.type); }"
        )
        try world.awaitFresh(index)
        #expect(try world.rows(index) == [#"1 b "user""#, #"3 a "user""#])
        world.changes.put("b", #"{"type":"user","age":9}"#)
        world.changes.put("c", #"{"type":"user","age":2}"#)
        world.changes.delete("a")
        try world.awaitFresh(index)
        #expect(try world.rows(index) == [#"2 c "user""#, #"9 b "user""#])
        #expect(try world.rowCounts(index) == 2)
    }

    @Test func reopenedIndexContinuesAtItsPositionAndMapsNothingAgain() throws {
        defer { world.stop() }
        for number in 0..<300 { world.changes.put("k\(number)", "{\"n\":\(number)}") }
        let source = "function (doc, meta) { emit(doc.n, meta.id); }"
        let first = try world.index(source)
        try world.awaitFresh(first)
        world.close(first)
        let delivered = world.changes.delivered
        let second = try world.index(source)
        world.changes.put("k7", #"{"n":1000}"#)
        try world.awaitFresh(second)
        #expect(world.changes.delivered == delivered + 1)
        let rows = try world.rows(second)
        #expect(rows.count == 300 && rows.last == #"1000 k7 "k7""#)
    }

    @Test func documentWhoseFunctionThrowsIsSkippedAndReported() throws {
        defer { world.stop() }
        world.changes.put("bad", #"{"n":null}"#)
        world.changes.put("good", #"{"n":{"x":1}}"#)
        let index = try world.index("function (doc) {\n  emit(doc.n.x, null);\n}")
        try world.awaitFresh(index)
        #expect(try world.rows(index) == ["1 good null"])
        let errors = try #require(world.errors(index).recent.first)
        #expect(errors.kind == .threw && errors.id == "bad" && errors.line == 2)
    }

    /// The vBucket is empty when its feed is opened, and has a change before the feed is read.
    @Test func changeBeforeTheFirstReadIsNotCountedAsIndexed() throws {
        defer { world.stop() }
        for number in 0..<20 {
            world.changes.whenOpened { $0.put("early\(number)", "{\"n\":\(number)}") }
        }
        let index = try world.index("function (doc) { emit(doc.n, null); }")
        try waitUntil("the vBuckets are opened") { world.changes.delivered > 0 }
        try world.awaitFresh(index)
        #expect(try world.rows(index).count == 20)
    }

    @Test func stoppedIndexEndsWaits() throws {
        defer { world.stop() }
        let index = try world.index("function (doc) { emit(doc.n, null); }")
        world.close(index)
        let outcome = Guarded<FreshnessWaiters.Outcome?>(nil)
        index.whenFresh([VBucketID(0): AwaitedChange(Seqno(9))]) { ended in
            outcome.withLock { $0 = ended }
        }
        try waitUntil("the wait ends") { outcome.withLock { $0 } != nil }
        #expect(outcome.withLock { $0 } == .ended)
    }

    /// The copy is loaded after the index was opened, and has nothing that the index lacks.
    @Test func reopenedIndexIsFreshOnlyOnceItsFeedsAreOpen() throws {
        defer { world.stop() }
        for number in 0..<20 { world.changes.put("k\(number)", "{\"n\":\(number)}") }
        let source = "function (doc) { emit(doc.n, null); }"
        let first = try world.index(source)
        try world.awaitFresh(first)
        world.close(first)
        let late = VBucketID(1)
        world.changes.load(late, false)
        let second = try world.index(source)
        let vector = world.changes.highVisible(of: [late], ofBucket: "bucket")
        let outcome = Guarded<FreshnessWaiters.Outcome?>(nil)
        second.whenFresh(vector) { ended in outcome.withLock { $0 = ended } }
        // Its answer comes from the index's lane, behind the wait.
        _ = world.errors(second)
        #expect(outcome.withLock { $0 } == nil)
        world.changes.load(late, true)
        try waitUntil("the wait ends") { outcome.withLock { $0 } != nil }
        #expect(outcome.withLock { $0 } == .fresh)
        #expect(try world.rows(second).count == 20)
    }

    @Test func vBucketWhoseFeedsEndAtOnceDelaysNoOther() throws {
        let broken = VBucketID(1)
        defer {
            world.changes.failFeeds(of: broken, false)
            world.stop()
        }
        for number in 0..<20 { world.changes.put("k\(number)", "{\"n\":\(number)}") }
        world.changes.failFeeds(of: broken, true)
        let index = try world.index("function (doc) { emit(doc.n, null); }")
        let others = MemoryChanges.vBuckets.filter { $0 != broken }
        let vector = world.changes.highVisible(of: others, ofBucket: "bucket")
        let outcome = Guarded<FreshnessWaiters.Outcome?>(nil)
        index.whenFresh(vector) { ended in outcome.withLock { $0 = ended } }
        try waitUntil("the others are fresh") { outcome.withLock { $0 } != nil }
        #expect(outcome.withLock { $0 } == .fresh)
        world.changes.failFeeds(of: broken, false)
        try world.awaitFresh(index)
        #expect(try world.rows(index).count == 20)
    }

    @Test func unwantedWaitIsReleased() throws {
        defer { world.stop() }
        let index = try world.index("function (doc) { emit(doc.n, null); }")
        let (isWanted, isReleased) = (Guarded(true), Guarded(false))
        let beyond = [VBucketID(0): AwaitedChange(Seqno(1_000))]
        keepInWait(of: index, beyond, isWanted, isReleased)
        index.whenFresh(beyond) { _ in }
        // Its answer comes from the index's lane, behind the waits.
        _ = world.errors(index)
        #expect(!isReleased.withLock { $0 })
        isWanted.withLock { $0 = false }
        index.whenFresh(beyond) { _ in }
        try waitUntil("the wait is forgotten") { isReleased.withLock { $0 } }
    }

    /// Begins a wait that sets `isReleased` when the index has forgotten it.
    private func keepInWait(
        of index: ViewIndex,
        _ vector: [VBucketID: AwaitedChange],
        _ isWanted: Guarded<Bool>,
        _ isReleased: Guarded<Bool>
    ) {
        let held = Held(isReleased)
        index.whenFresh(
            vector,
            isWanted: { isWanted.withLock { $0 } },
            done: { _ in withExtendedLifetime(held) {} }
        )
    }

    private final class Held: Sendable {
        private let isReleased: Guarded<Bool>

        init(_ isReleased: Guarded<Bool>) { self.isReleased = isReleased }

        deinit { isReleased.withLock { $0 = true } }
    }

    @Test func departedVBucketLeavesNoRow() throws {
        defer { world.stop() }
        for number in 0..<50 { world.changes.put("k\(number)", "{\"n\":\(number)}") }
        let index = try world.index("function (doc) { emit(doc.n, null); }")
        try world.awaitFresh(index)
        let kept = VBucketID(0)
        let expected = world.changes.documents(of: kept)
        world.serve(index, [kept])
        try waitUntil("the other vBuckets' rows are removed") {
            try world.homes(index) == [kept: .main]
        }
        #expect(try world.rows(index).count == expected)
    }
}

/// Changes of a few vBuckets in memory: the newest version of each document, by seqno.
final class MemoryChanges: DocumentChangePort {
    struct Version {
        let key: [UInt8]
        let meta: DocumentMeta
        let value: [UInt8]
    }

    struct State {
        var versions: [VBucketID: [Version]] = [:]
        var highs: [VBucketID: Seqno] = [:]
        /// 5 for vBuckets that are not named.
        var histories: [VBucketID: VBucketUUID] = [:]
        var holdsLease = true
        var wakes: [VBucketID: [@Sendable () -> Void]] = [:]
        var stalled: Set<VBucketID> = []
        var unloaded: Set<VBucketID> = []
        var failing: Set<VBucketID> = []
        var delivered = 0
        var openings: [@Sendable (MemoryChanges) -> Void] = []

        func history(of vBucket: VBucketID) -> VBucketUUID { histories[vBucket] ?? VBucketUUID(5) }
    }

    static let vBuckets = (0..<4).map { VBucketID(UInt16($0)) }
    fileprivate let state = Guarded(State())

    var delivered: Int { state.withLock { $0.delivered } }

    func put(_ key: String, _ value: String) { change(key, Array(value.utf8), isDeleted: false) }

    func delete(_ key: String) { change(key, [], isDeleted: true) }

    /// Runs `body` after the next feed was opened and before it is read.
    func whenOpened(_ body: @escaping @Sendable (MemoryChanges) -> Void) {
        state.withLock { $0.openings.append(body) }
    }

    /// Lets the vBucket's next feed deliver nothing until it is ended.
    func stall(_ vBucket: VBucketID) { state.withLock { _ = $0.stalled.insert(vBucket) } }

    /// Replaces the history of a vBucket, which keeps its changes under their seqnos; no feed is woken.
    func replaceHistory(of vBucket: VBucketID) {
        state.withLock { state in
            state.histories[vBucket] = VBucketUUID(state.history(of: vBucket).value + 1)
        }
    }

    /// Wakes the readers of a vBucket.
    func wake(_ vBucket: VBucketID) {
        for wake in state.withLock({ $0.wakes[vBucket] ?? [] }) { wake() }
    }

    /// Ends or renews the lease of the node.
    func holdLease(_ holdsLease: Bool) { state.withLock { $0.holdsLease = holdsLease } }

    /// Whether feeds of the vBucket can be opened.
    func load(_ vBucket: VBucketID, _ isLoaded: Bool) {
        state.withLock { state in
            if isLoaded { state.unloaded.remove(vBucket) } else { state.unloaded.insert(vBucket) }
        }
    }

    /// Whether feeds of the vBucket end in their first step.
    func failFeeds(of vBucket: VBucketID, _ fail: Bool) {
        state.withLock { state in
            if fail { state.failing.insert(vBucket) } else { state.failing.remove(vBucket) }
        }
    }

    func documents(of vBucket: VBucketID) -> Int {
        state.withLock { $0.versions[vBucket]?.count { !$0.meta.isDeleted } ?? 0 }
    }

    func change(
        _ key: String,
        _ value: [UInt8],
        isDeleted: Bool,
        datatype: Datatype = .json
    ) {
        let bytes = Array(key.utf8)
        let vBucket = VBucketID(ofKey: bytes, count: MemoryChanges.vBuckets.count)
        let wakes = state.withLock { state in
            let seqno = Seqno((state.highs[vBucket]?.value ?? 0) + 1)
            let meta = DocumentMeta(
                seqno: seqno,
                cas: CAS(seqno.value),
                datatype: datatype,
                isDeleted: isDeleted
            )
            state.highs[vBucket] = seqno
            var versions = state.versions[vBucket] ?? []
            versions.removeAll { $0.key == bytes }
            versions.append(Version(key: bytes, meta: meta, value: value))
            state.versions[vBucket] = versions
            return state.wakes[vBucket] ?? []
        }
        for wake in wakes { wake() }
    }

    func openFeed(
        of vBucket: VBucketID,
        ofBucket bucket: String,
        at position: IndexPosition,
        wake: @escaping @Sendable () -> Void
    ) -> ChangeFeedOpening {
        if state.withLock({ $0.unloaded.contains(vBucket) }) { return .unavailable }
        let (high, history) = state.withLock { state in
            state.wakes[vBucket, default: []].append(wake)
            return (state.highs[vBucket] ?? .zero, state.history(of: vBucket))
        }
        if position.seqno > .zero, position.uuid != history { return .rollBack }
        let feed = MemoryFeed(self, vBucket, position.seqno, of: history)
        let openings = state.withLock { state in
            defer { state.openings = [] }
            return state.openings
        }
        for body in openings { body(self) }
        return .opened(feed, high: high, uuid: history)
    }

    func watch(
        _ vBuckets: [VBucketID],
        ofBucket bucket: String,
        _ changed: @escaping @Sendable () -> Void
    ) -> (any ChangeWatch)? {
        state.withLock { state in
            for vBucket in vBuckets { state.wakes[vBucket, default: []].append(changed) }
        }
        return Watch()
    }

    /// Wakes that come after the end of a watch have no effect.
    private struct Watch: ChangeWatch {
        func cancel() {}
    }

    func highVisible(
        of vBuckets: [VBucketID],
        ofBucket bucket: String
    ) -> [VBucketID: AwaitedChange] {
        state.withLock { state in
            guard state.holdsLease else { return [:] }
            let changes = vBuckets.map { vBucket in
                let high = state.highs[vBucket] ?? .zero
                return (vBucket, AwaitedChange(high, of: state.history(of: vBucket)))
            }
            return Dictionary(uniqueKeysWithValues: changes)
        }
    }
}

/// A feed of one vBucket: each step is a snapshot of everything that is new.
final class MemoryFeed: ChangeFeed {
    private let changes: MemoryChanges
    private let vBucket: VBucketID
    private let history: VBucketUUID
    private var position: Seqno
    private var isEnded = false

    init(
        _ changes: MemoryChanges,
        _ vBucket: VBucketID,
        _ position: Seqno,
        of history: VBucketUUID
    ) {
        self.history = history
        self.changes = changes
        self.vBucket = vBucket
        self.position = position
    }

    func step(credit: Int, into output: ByteWriter) -> StreamProgress {
        let isOver = changes.state.withLock { state in
            state.failing.contains(vBucket) || state.history(of: vBucket) != history
        }
        if isEnded || isOver {
            ChangeRecord.ended.append(to: output)
            return .over
        }
        let (new, high) = changes.state.withLock { state in
            guard !state.stalled.contains(vBucket) else { return ([Version](), Seqno.zero) }
            let new = (state.versions[vBucket] ?? []).filter { $0.meta.seqno > position }
            state.delivered += new.count
            return (new, state.highs[vBucket] ?? .zero)
        }
        guard !new.isEmpty else { return .asleep }
        ChangeRecord.snapshot(start: position, end: high).append(to: output)
        for version in new.sorted(by: { $0.meta.seqno < $1.meta.seqno }) {
            version.key.withUnsafeBytes { key in
                version.value.withUnsafeBytes { value in
                    ChangeRecord.change(version.meta, key: ByteView(key), value: ByteView(value))
                        .append(to: output)
                }
            }
        }
        position = high
        return .asleep
    }

    func endIfStalled() -> Bool {
        let isStalled = changes.state.withLock { $0.stalled.remove(vBucket) != nil }
        if isStalled { isEnded = true }
        return isStalled
    }

    func close() {}
}
