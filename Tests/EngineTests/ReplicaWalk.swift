import Bytes
import Engine
import Testing
import Vocabulary

/// Which snapshot of the active copy a replica is receiving.
struct IncomingSnapshot {
    /// Where the copy was whole before it.
    let start: UInt64
    let end: UInt64
    /// What has yet to come of it, by seqno.
    var rest: [UInt64]
}

final class ReplicaWalk {
    let replica: Replica
    let isPersistent: Bool
    let ejects: Bool
    var random: SeededRandom
    /// The active copy's events, by seqno less one.
    var events: [PreparedEvent] = []
    /// Outstanding on the active copy.
    private var prepares: [Int: UInt64] = [:]
    private var preparedAt: [UInt64: UInt64] = [:]
    private var incoming: IncomingSnapshot?
    /// Where the replica was whole.
    private(set) var wholes: Set<UInt64> = [0]
    var disk: [UInt64: Change] = [:]
    private(set) var diskEnd: UInt64 = 0
    private var drain: VBucketCore.Drain?
    private var readers: [ReplicaReader] = []
    var besides = 0
    var scans = 0
    private(set) var isFinishing = false

    init(_ type: BucketType, seed: UInt64, ejects: Bool) throws {
        replica = try Replica(type)
        isPersistent = type == .persistent
        self.ejects = ejects && type == .persistent
        random = SeededRandom(seed: seed)
    }

    var isOpen: Bool { replica.vBucket.withCore { $0.openSnapshot != nil } }

    private var high: UInt64 { replica.vBucket.withCore { $0.highSeqno.value } }

    func step() {
        replica.stage.nanoseconds += 1_000_000
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<25: write()
        case 25..<60: receive()
        case 60..<68: flush()
        case 68..<70 where readers.count < 4: readers.append(ReplicaReader(self))
        case 70: readers.randomElement(using: &random)?.close()
        case 71: _ = replica.vBucket.withCore { $0.dropSlowestCursor() }
        default: readers.randomElement(using: &random)?.step()
        }
    }

    func state(at seqno: UInt64) -> [[UInt8]: Change] {
        var state: [[UInt8]: Change] = [:]
        for event in events.prefix(Int(seqno)) {
            if case .change(let change) = event { state[change.key] = change }
        }
        return state
    }

    /// The newest visible change up to `seqno`.
    private func visible(through seqno: UInt64) -> UInt64 {
        let last = events.prefix(Int(seqno)).lastIndex { event in
            if case .change = event { true } else { false }
        }
        return last.map { UInt64($0) + 1 } ?? 0
    }

    // MARK: The active copy

    private func write() {
        let seqno = UInt64(events.count) + 1
        let number = Int.random(in: 0..<20, using: &random)
        let count = Int.random(in: 0..<200, using: &random)
        var meta = DocumentMeta(seqno: Seqno(seqno), cas: CAS(seqno * 10))
        meta.isDeleted = Int.random(in: 0..<6, using: &random) == 0
        let value = meta.isDeleted ? [] : [UInt8](repeating: UInt8(seqno & 0xff), count: count)
        let change = Change(key: key(number), meta: meta, value: value)
        if let prepare = prepares[number] {
            prepares[number] = nil
            if Bool.random(using: &random) {
                events.append(.change(change))
            } else {
                preparedAt[seqno] = prepare
                events.append(.abort(key: key(number)))
            }
        } else if Int.random(in: 0..<3, using: &random) == 0 {
            prepares[number] = seqno
            events.append(.prepare(change))
        } else {
            events.append(.change(change))
        }
    }

    /// What the active copy's order has behind `start` for a snapshot through `end`.
    private func sent(after start: UInt64, through end: UInt64) -> [UInt64] {
        var changed: Set<[UInt8]> = []
        var completed: Set<[UInt8]> = []
        var list: [UInt64] = []
        for seqno in (start + 1...end).reversed() {
            switch events[Int(seqno) - 1] {
            case .change(let change):
                completed.insert(change.key)
                if changed.insert(change.key).inserted { list.append(seqno) }
            case .abort(let key):
                completed.insert(key)
                list.append(seqno)
            case .prepare(let change):
                if !completed.contains(change.key) { list.append(seqno) }
            }
        }
        return list.reversed()
    }

    // MARK: The replica

    private func receive() {
        let now = UInt64(events.count)
        if var snapshot = incoming {
            // A snapshot that was broken off is followed by one that ends no earlier.
            if Int.random(in: 0..<30, using: &random) == 0, high < now {
                let end = UInt64.random(in: max(snapshot.end, high + 1)...now, using: &random)
                replica.begin(high, end)
                incoming = IncomingSnapshot(
                    start: snapshot.start,
                    end: end,
                    rest: sent(after: high, through: end)
                )
                return
            }
            if let seqno = snapshot.rest.first {
                snapshot.rest.removeFirst()
                incoming = snapshot
                apply(seqno)
            } else {
                let end = Seqno(snapshot.end)
                #expect(replica.vBucket.withCore { $0.advance(to: end) })
            }
            if high >= snapshot.end {
                wholes.insert(snapshot.end)
                incoming = nil
            }
        } else if high < now {
            let end = UInt64.random(in: high + 1...now, using: &random)
            replica.begin(high, end)
            incoming = IncomingSnapshot(
                start: high,
                end: end,
                rest: sent(after: high, through: end)
            )
        }
        _ = replica.vBucket.withCore { $0.takeOwedStreamWake() }
    }

    private func apply(_ seqno: UInt64) {
        let turn = replica.stage.turn
        let bytes: [UInt8] =
            switch events[Int(seqno) - 1] {
            case .change(let change), .prepare(let change): change.key
            case .abort(let key): key
            }
        let hash = replica.stage.hash(of: bytes)
        let outcome = viewing(bytes) { key in
            replica.vBucket.withCore { core in
                switch events[Int(seqno) - 1] {
                case .change(let change):
                    viewing(change.value) {
                        core.apply(change.meta, key: key, hash: hash, value: $0, turn)
                    }
                case .prepare(let change):
                    viewing(change.value) {
                        core.applyPrepare(
                            change.meta,
                            level: .majority,
                            key: key,
                            hash: hash,
                            value: $0,
                            turn
                        )
                    }
                case .abort:
                    core.applyAbort(
                        at: Seqno(seqno),
                        of: Seqno(preparedAt[seqno] ?? 0),
                        key: key,
                        hash: hash,
                        turn
                    )
                }
            }
        }
        switch outcome {
        case .applied: break
        case .wouldBlock(.metadata(let missing)):
            restore(missing)
            apply(seqno)
        default: Issue.record("seqno \(seqno) came to \(outcome)")
        }
    }

    /// Brings back from disk what memory has only a stub of.
    private func restore(_ seqno: Seqno) {
        guard let change = disk[seqno.value] else {
            Issue.record("what left memory is on disk")
            return
        }
        viewing(change.key) { key in
            viewing(change.value) { value in
                replica.vBucket.withCore { core in
                    _ = core.restore(
                        change.meta,
                        key: key,
                        valueCount: value.count,
                        value: value,
                        replica.stage.turn
                    )
                }
            }
        }
    }

    private func flush(fails: Bool? = nil) {
        guard isPersistent else { return }
        guard let drain else {
            drain = replica.vBucket.withCore { core in
                let drain = core.drain()
                let record = core.record(through: drain.boundary, casHorizon: 0)
                #expect(record.highSeqno == drain.boundary)
                #expect(record.snapshotStart <= record.highSeqno)
                #expect(record.highSeqno <= record.snapshotEnd)
                return drain
            }
            return
        }
        self.drain = nil
        let fails = fails ?? (Int.random(in: 0..<5, using: &random) == 0)
        replica.vBucket.withCore { core in
            if fails { return core.undrain(drain) }
            for entry in drain.entries where entry.item.level == nil {
                disk[entry.item.seqno.value] = Change(entry.item)
            }
            core.persisted(through: drain.boundary)
        }
        if !fails { diskEnd = drain.boundary.value }
        if ejects { replica.eject() }
    }

    // MARK: Judging

    /// False once something is wrong: what follows would only repeat it.
    func check(_ step: Int) -> Bool {
        if step % 50 == 0 {
            let recount = replica.vBucket.withCore { $0.recount() }
            #expect(UInt64(recount) == replica.bucket.account.bytes)
        }
        let (start, high) = replica.vBucket.withCore {
            ($0.coveredSeqno.value, $0.highVisible.value)
        }
        guard wholes.contains(start), high == visible(through: start) else {
            Issue.record("at \(start) the newest visible change is \(high)")
            return false
        }
        return !readers.contains(where: \.hasFailed)
    }

    func finish() throws {
        isFinishing = true
        while high < UInt64(events.count) || incoming != nil { receive() }
        for _ in 0..<4 { flush(fails: false) }
        for reader in readers {
            for _ in 0..<10_000 where reader.position < high {
                reader.step()
                flush(fails: false)
            }
            #expect(reader.position == high)
            reader.close()
        }
        #expect(replica.vBucket.withCore { $0.dropCursors() } == 0)
        #expect(replica.bucket.account.checkpointBytes == 0)
    }
}

/// A visible-only reader.
final class ReplicaReader {
    private unowned let walk: ReplicaWalk
    private var state: [[UInt8]: Change] = [:]
    private(set) var position: UInt64 = 0
    private var promised: UInt64 = 0
    private var cursor: CursorID?
    /// The scan under way: what is left, and where it ends.
    private var scan: (rest: [UInt64], end: UInt64)?
    private(set) var hasFailed = false

    init(_ walk: ReplicaWalk) { self.walk = walk }

    private var vBucket: VBucket { walk.replica.vBucket }

    func close() {
        guard let cursor else { return }
        vBucket.withCore { $0.closeCursor(cursor) }
        self.cursor = nil
    }

    func step() {
        if scan != nil { return stepScan() }
        guard let cursor else { return open() }
        switch vBucket.withCore({ $0.snapshot(cursor) }) {
        case .drained: return
        case .dropped: self.cursor = nil
        case .range(let start, let end):
            expect(start.value == position, "a snapshot follows on the one before")
            promised = max(promised, end.value)
            var seen: [Change] = []
            let bytes = Int.random(in: 1...2_000, using: &walk.random)
            let outcome = vBucket.withCore { core in
                core.read(cursor, bytesMax: bytes) { item in
                    position = item.seqno.value
                    if item.isVisible { seen.append(Change(item)) }
                }
            }
            for change in seen { state[change.key] = change }
            if outcome == .ended { finish(end.value) }
        }
    }

    private func open() {
        let (seqno, promised) = (Seqno(position), Seqno(promised))
        switch vBucket.withCore({ $0.openChanges(after: seqno, promised: promised) }) {
        case .memory(let found): cursor = found
        case .disk:
            // Time passes before the file is opened.
            let steps = walk.isFinishing ? 0 : Int.random(in: 0...2, using: &walk.random)
            for _ in 0..<steps { walk.step() }
            guard scan == nil, cursor == nil else { return }
            let end = walk.diskEnd
            guard vBucket.withCore({ $0.isReadableOnDisk(through: Seqno(end)) }),
                end >= promised.value
            else { return }
            scan = (walk.disk.keys.filter { $0 > position && $0 <= end }.sorted(), end)
            self.promised = max(self.promised, end)
            walk.scans += 1
        case .unpersisted: break
        case .purged, .notReady: Issue.record("nothing was purged, everything is loaded")
        }
    }

    private func stepScan() {
        guard var scan else { return }
        for _ in 0..<3 {
            guard let seqno = scan.rest.first, let change = walk.disk[seqno] else {
                self.scan = nil
                return finish(scan.end)
            }
            scan.rest.removeFirst()
            let hash = walk.replica.stage.hash(of: change.key)
            let isNeeded = viewing(change.key) { key in
                vBucket.withCore {
                    $0.isNeeded(key, hash: hash, seqno: Seqno(seqno), through: Seqno(scan.end))
                }
            }
            if isNeeded { state[change.key] = change }
            position = seqno
        }
        self.scan = scan
    }

    private func finish(_ end: UInt64) {
        position = end
        if walk.isOpen { walk.besides += 1 }
        expect(walk.wholes.contains(end), "a reader's snapshot ends where one of the replica did")
        // A reader that was dropped inside a snapshot has a part of it until the next one ends.
        guard end >= promised else { return }
        expect(state == walk.state(at: end), "a reader has what the active copy had there")
    }

    private func expect(_ isSo: Bool, _ what: String) {
        guard !isSo, !hasFailed else { return }
        hasFailed = true
        Issue.record("\(what): at \(position)")
    }
}
