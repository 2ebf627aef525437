import Bytes
import Engine
import Testing
import Vocabulary

/// Random walks over durable and ordinary writes, with a flusher whose commits fail in both ways and
/// replicas that read from memory and from the table.
///
/// What every reader has at a boundary is what there was there, prepares included, and every byte is
/// accounted for.
struct PrepareWalkTests {
    @Test(
        "readers at a boundary have its documents and its prepares",
        arguments: 1...24 as ClosedRange<UInt64>
    )
    func randomPreparesCommitsAndAbortsAgreeWithModel(seed: UInt64) throws {
        let walk = try PrepareWalk(seed.isMultiple(of: 2) ? .persistent : .ephemeral, seed: seed)
        for step in 0..<1_200 {
            walk.step()
            guard walk.check(step) else { return }
        }
        walk.finish()
        #expect(walk.commits > 50 && walk.aborts > 20 && walk.snapshots > 20)
        #expect(walk.tableWalks > 0)
        if walk.isPersistent { #expect(walk.flushes > 10 && walk.failures > 5) }
    }
}

/// What a copy is: the newest version of each key, and the prepares.
struct PreparedState: Equatable {
    var documents: [[UInt8]: Change] = [:]
    var prepares: [[UInt8]: Change] = [:]
}

/// One entry of a vBucket's order.
enum PreparedEvent {
    case change(Change)
    case prepare(Change)
    case abort(key: [UInt8])
}

final class PrepareWalk {
    let stage = Stage()
    let bucket: Bucket
    let vBucket: VBucket
    let isPersistent: Bool
    var random: SeededRandom
    var events: [PreparedEvent] = []
    var disk = PreparedState()
    private var drain: VBucketCore.Drain?
    private var written = PreparedState()
    private var followers: [Follower] = []
    private(set) var commits = 0
    private(set) var aborts = 0
    private(set) var flushes = 0
    private(set) var failures = 0
    var snapshots = 0
    var tableWalks = 0

    init(_ type: BucketType, seed: UInt64) throws {
        bucket = stage.bucket(type)
        vBucket = try #require(bucket[1])
        isPersistent = type == .persistent
        random = SeededRandom(seed: seed)
        for _ in 0..<2 { followers.append(try Follower(self)) }
    }

    func state(at seqno: Seqno) -> PreparedState {
        var state = PreparedState()
        for event in events.prefix(Int(seqno.value)) {
            switch event {
            case .change(let change):
                state.documents[change.key] = change
                state.prepares[change.key] = nil
            case .prepare(let change): state.prepares[change.key] = change
            case .abort(let key): state.prepares[key] = nil
            }
        }
        return state
    }

    func step() {
        stage.nanoseconds += 1_000_000
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<4: write(nil)
        case 4..<9: write(.majority)
        case 9..<11: complete(commits: true)
        case 11..<13: complete(commits: false)
        case 13..<15: flush()
        default: followers.randomElement(using: &random)?.step()
        }
    }

    private func write(_ level: DurabilityLevel?) {
        let name = key(Int.random(in: 0..<24, using: &random))
        let hash = stage.hash(of: name)
        var turn = stage.turn
        turn.durability = level
        let deletes = Int.random(in: 0..<4, using: &random) == 0
        let count = Int.random(in: 0..<200, using: &random)
        let outcome = viewing(name) { key in
            viewing([UInt8](repeating: UInt8(count), count: count)) { value in
                let request = StoreRequest(
                    key: key,
                    hash: hash,
                    value: value,
                    flags: 0,
                    expiry: 0,
                    datatype: [],
                    cas: .none,
                    mode: .set,
                    preservesExpiry: false
                )
                return vBucket.withCore { core in
                    deletes
                        ? core.delete(key, hash: hash, cas: .none, turn)
                        : core.store(request, turn)
                }
            }
        }
        let isPrepared = state(at: Seqno(.max >> 16)).prepares[name] != nil
        switch outcome {
        case .done:
            #expect(!isPrepared && level == nil)
            noteNewest(of: name, hash)
        case .prepared(let stored):
            #expect(!isPrepared && level != nil)
            var meta = DocumentMeta(seqno: stored.seqno, cas: stored.cas)
            meta.isDeleted = deletes
            meta.expiry = deletes ? turn.seconds : 0
            meta.revision = (state(at: stored.seqno).documents[name]?.meta.revision ?? 0) + 1
            let value = [UInt8](repeating: UInt8(count), count: deletes ? 0 : count)
            events.append(.prepare(Change(key: name, meta: meta, value: value)))
        case .refused(.writeInProgress): #expect(isPrepared)
        case .refused(.notFound): #expect(deletes)
        default: Issue.record("a write came to \(outcome)")
        }
    }

    private func noteNewest(of name: [UInt8], _ hash: UInt64) {
        viewing(name) { key in
            vBucket.withCore { core in
                guard case .done(let (item, _)) = core.getMeta(key, hash: hash, stage.turn) else {
                    Issue.record("what was stored is there")
                    return
                }
                events.append(.change(Change(item)))
            }
        }
    }

    private func complete(commits isCommit: Bool) {
        let outstanding = vBucket.withCore { $0.outstandingPrepares }
        guard let prepare = outstanding.randomElement(using: &random),
            case .prepare(let change) = events[Int(prepare.seqno.value) - 1]
        else { return }
        let outcome = vBucket.withCore { core in
            isCommit
                ? core.commit(prepare.seqno, fence: 0, stage.turn)
                : core.abort(prepare.seqno, fence: 0, stage.turn)
        }
        switch outcome {
        case .done(let stored) where isCommit:
            #expect(stored.cas == change.meta.cas)
            commits += 1
            noteNewest(of: change.key, stage.hash(of: change.key))
            guard case .change(let made)? = events.last else { return }
            #expect(made.value == change.value && made.meta.cas == change.meta.cas)
            #expect(made.meta.isDeleted == change.meta.isDeleted)
        case .done:
            aborts += 1
            events.append(.abort(key: change.key))
        default: Issue.record("completing came to \(outcome)")
        }
    }

    /// Begins a commit, or ends the one under way: well, or badly with or without its effect.
    private func flush() {
        guard isPersistent else { return }
        guard let drain else {
            let drain = vBucket.withCore { $0.drain() }
            written = disk
            for entry in drain.entries {
                let change = Change(entry.item)
                if entry.item.level == nil {
                    written.documents[change.key] = change
                } else {
                    written.prepares[change.key] = change
                }
            }
            for seqno in drain.completedPrepares {
                written.prepares = written.prepares.filter { $0.value.meta.seqno != seqno }
            }
            self.drain = drain
            return
        }
        self.drain = nil
        if Int.random(in: 0..<3, using: &random) == 0 {
            failures += 1
            if Bool.random(using: &random) { disk = written }
            return vBucket.withCore { $0.undrain(drain) }
        }
        flushes += 1
        disk = written
        vBucket.withCore { $0.persisted(through: drain.boundary) }
        #expect(disk == state(at: drain.boundary), "the disk has what there was at the boundary")
    }

    func check(_ step: Int) -> Bool {
        let (high, recount) = vBucket.withCore { ($0.highSeqno, $0.recount()) }
        #expect(Int(high.value) == events.count, "step \(step)")
        #expect(UInt64(recount) == bucket.account.bytes, "step \(step)")
        let matches = Int(high.value) == events.count && UInt64(recount) == bucket.account.bytes
        return matches && followers.allSatisfy { !$0.hasFailed }
    }

    func finish() {
        for follower in followers { follower.catchUp() }
        vBucket.withCore { $0.removeAll() }
        #expect(bucket.account.bytes == 0 && bucket.account.checkpointBytes == 0)
    }
}

/// A replica, fed from the vBucket's cursors: after a dropped one perhaps from the table.
final class Follower {
    private unowned let walk: PrepareWalk
    private let bucket: Bucket
    private let vBucket: VBucket
    private var cursor: CursorID?
    private var hasBegun = false
    private(set) var hasFailed = false

    init(_ walk: PrepareWalk) throws {
        self.walk = walk
        bucket = walk.stage.bucket(.persistent)
        vBucket = try #require(bucket[1])
        vBucket.withCore { $0.become(.replica) }
    }

    func step() {
        if let cursor, Int.random(in: 0..<24, using: &walk.random) == 0 {
            walk.vBucket.withCore { $0.closeCursor(cursor) }
            self.cursor = nil
            hasBegun = false
            return
        }
        read(bytesMax: Int.random(in: 1..<2_000, using: &walk.random))
    }

    func catchUp() {
        var left = 10_000
        while vBucket.withCore({ $0.highSeqno }).value < UInt64(walk.events.count), left > 0 {
            read(bytesMax: 1 << 20)
            left -= 1
        }
        #expect(left > 0, "a replica catches up")
    }

    private func read(bytesMax: Int) {
        guard let cursor else {
            let high = vBucket.withCore { $0.highSeqno }
            guard case .memory(let found) = walk.vBucket.withCore({ $0.openChanges(after: high) })
            else { return }
            self.cursor = found
            if walk.vBucket.withCore({ $0.outstanding(atEndOf: found) }) != nil {
                walk.tableWalks += 1
            }
            return
        }
        guard case .range(let start, let end) = walk.vBucket.withCore({ $0.snapshot(cursor) })
        else { return }
        if !hasBegun {
            hasBegun = true
            let outstanding = walk.vBucket.withCore { $0.outstanding(atEndOf: cursor) }
            let range = SnapshotRange(start: start, end: end)
            // A snapshot that was broken off ends no earlier the next time.
            let isBegun = vBucket.withCore { $0.beginSnapshot(range) }
            expect(isBegun, "a snapshot begins")
            if let outstanding {
                expect(vBucket.withCore { $0.announceOutstanding(outstanding) }, "it was begun")
            }
        }
        let outcome = walk.vBucket.withCore { core in
            core.read(cursor, bytesMax: bytesMax) { apply($0) }
        }
        guard outcome == .ended else { return }
        hasBegun = false
        if vBucket.withCore({ $0.highSeqno }) < end {
            expect(vBucket.withCore { $0.advance(to: end) }, "the snapshot is whole")
        }
        walk.snapshots += 1
        expect(contents() == walk.state(at: end), "a replica has what there was at the boundary")
        let recount = vBucket.withCore { $0.recount() }
        expect(UInt64(recount) == bucket.account.bytes, "every byte of a replica is accounted for")
    }

    private func apply(_ item: Item) {
        let (change, hash) = (Change(item), walk.stage.hash(of: item.key.bytes))
        let turn = walk.stage.turn
        let outcome = viewing(change.key) { key in
            viewing(change.value) { value in
                vBucket.withCore { core in
                    if let prepare = item.abortedPrepare {
                        let seqno = item.seqno
                        return core.applyAbort(at: seqno, of: prepare, key: key, hash: hash, turn)
                    }
                    guard let level = item.level else {
                        return core.apply(change.meta, key: key, hash: hash, value: value, turn)
                    }
                    return core.applyPrepare(
                        change.meta,
                        level: level,
                        key: key,
                        hash: hash,
                        value: value,
                        turn
                    )
                }
            }
        }
        guard case .applied = outcome else { return expect(false, "\(outcome)") }
    }

    private func contents() -> PreparedState {
        var state = PreparedState()
        vBucket.withCore { core in
            let next = core.table.visit(from: 0, groupsMax: .max / 2) { item in
                state.documents[item.key.bytes] = Change(item)
            }
            expect(next == nil, "one visit covers the whole table")
            core.forEachPrepare { state.prepares[$0.key.bytes] = Change($0) }
        }
        return state
    }

    private func expect(_ isTrue: Bool, _ what: String) {
        guard !isTrue, !hasFailed else { return }
        hasFailed = true
        Issue.record("\(what)")
    }
}
