import Bytes
import Engine
import Testing
import Vocabulary

/// A version as a reader of changes sees it.
struct Change: Equatable {
    let key: [UInt8]
    let meta: DocumentMeta
    let value: [UInt8]

    init(_ item: Item) {
        key = item.key.bytes
        meta = item.meta
        value = item.value.bytes
    }

    init(key: [UInt8], meta: DocumentMeta, value: [UInt8]) {
        self.key = key
        self.meta = meta
        self.value = value
    }
}

/// A vBucket with all that ever happened to it, and a disk that keeps every version it was given.
final class Chronicle {
    let stage = Stage()
    let bucket: Bucket
    let vBucket: VBucket
    /// Every change, by seqno less one.
    var history: [Change] = []
    /// Persisted versions by seqno: none is ever compacted away.
    var disk: [UInt64: Change] = [:]
    var drain: VBucketCore.Drain?

    init(_ type: BucketType = .persistent, quota: UInt64 = 1 << 40) throws {
        bucket = stage.bucket(type, quota: quota)
        vBucket = try #require(bucket[5])
    }

    /// Newest versions at or below `seqno`.
    func state(at seqno: Seqno) -> [[UInt8]: Change] {
        var state: [[UInt8]: Change] = [:]
        for change in history.prefix(Int(seqno.value)) { state[change.key] = change }
        return state
    }

    /// Looks what a command that was just given has made.
    private func note(_ bytes: [UInt8]) {
        let hash = stage.hash(of: bytes)
        viewing(bytes) { key in
            vBucket.withCore { core in
                guard core.highSeqno.value > history.count,
                    case .done(let (item, _)) = core.getMeta(key, hash: hash, stage.turn)
                else { return }
                history.append(Change(item))
            }
        }
    }

    func set(_ number: Int, _ value: [UInt8], expiry: UInt32 = 0) {
        stage.nanoseconds += 70_000
        fetch(key(number))
        #expect(stage.store(vBucket, key(number), value, expiry: expiry) != nil)
        note(key(number))
    }

    /// Brings back from disk what memory has eight bytes of, if it may be this key's.
    private func fetch(_ bytes: [UInt8]) {
        let hash = stage.hash(of: bytes)
        viewing(bytes) { key in
            vBucket.withCore { core in
                while case .wait(.metadata(let seqno)) = core.getMeta(
                    key,
                    hash: hash,
                    stage.turn
                ) {
                    guard let change = disk[seqno.value] else {
                        Issue.record("what left memory is on disk")
                        return
                    }
                    viewing(change.key) { key in
                        viewing(change.value) { value in
                            _ = core.restore(
                                change.meta,
                                key: key,
                                valueCount: value.count,
                                value: value,
                                stage.turn
                            )
                        }
                    }
                }
            }
        }
    }

    func delete(_ number: Int) {
        let bytes = key(number)
        fetch(bytes)
        let hash = stage.hash(of: bytes)
        _ = viewing(bytes) { key in
            vBucket.withCore { $0.delete(key, hash: hash, cas: .none, stage.turn) }
        }
        note(bytes)
    }

    func beginCommit() {
        drain = vBucket.withCore { $0.drain() }
    }

    func endCommit(fails: Bool) {
        guard let drain else { return }
        self.drain = nil
        vBucket.withCore { core in
            if fails { return core.undrain(drain) }
            for entry in drain.entries { disk[entry.item.seqno.value] = Change(entry.item) }
            core.persisted(through: drain.boundary)
        }
    }

    /// Takes values out of memory.
    func eject(_ threshold: UInt8 = .max) {
        vBucket.withCore { core in
            _ = core.ejectSlice(from: 0, groupsMax: .max / 2, threshold: threshold, stage.turn)
        }
    }
}

/// A reader of a chronicle's changes, with the changes that it has read.
final class Reader {
    let chronicle: Chronicle
    var state: [[UInt8]: Change] = [:]
    var position = Seqno.zero
    var promised = Seqno.zero
    var cursor: CursorID?
    /// The scan under way, through here.
    var scan: Seqno?
    var snapshots = 0
    var backfills = 0

    init(_ chronicle: Chronicle) { self.chronicle = chronicle }

    /// Does one thing: finds a source, begins a snapshot, or reads a little.
    func step(bytesMax: Int) {
        if let end = scan { return stepScan(through: end, bytesMax) }
        guard let cursor else { return open() }
        switch chronicle.vBucket.withCore({ $0.snapshot(cursor) }) {
        case .drained: return
        case .dropped: self.cursor = nil
        case .range(let start, let end):
            #expect(start == position)
            promised = max(promised, end)
            var seen: [Change] = []
            let outcome = chronicle.vBucket.withCore { core in
                core.read(cursor, bytesMax: bytesMax) { seen.append(Change($0)) }
            }
            for change in seen {
                #expect(change.meta.seqno > position && change.meta.seqno <= end)
                #expect(change == chronicle.history[Int(change.meta.seqno.value) - 1])
                position = change.meta.seqno
                state[change.key] = change
            }
            if outcome == .ended { finish(end) }
        }
    }

    private func open() {
        let source = chronicle.vBucket.withCore {
            $0.openChanges(after: position, promised: promised)
        }
        switch source {
        case .memory(let cursor): self.cursor = cursor
        case .disk(let end, _):
            scan = end
            promised = max(promised, end)
            backfills += 1
        case .unpersisted(let seqno): #expect(seqno == promised)
        case .purged, .notReady: Issue.record("nothing was purged, everything is loaded")
        }
    }

    private func stepScan(through end: Seqno, _ bytesMax: Int) {
        let found = chronicle.disk.keys.filter { $0 > position.value && $0 <= end.value }.min()
        guard let found, let change = chronicle.disk[found] else {
            scan = nil
            return finish(end)
        }
        let hash = chronicle.stage.hash(of: change.key)
        let isNeeded = viewing(change.key) { key in
            chronicle.vBucket.withCore {
                $0.isNeeded(key, hash: hash, seqno: Seqno(found), through: end)
            }
        }
        if isNeeded { state[change.key] = change }
        position = Seqno(found)
    }

    private func finish(_ end: Seqno) {
        position = end
        snapshots += 1
        guard end >= promised else { return }
        #expect(state == chronicle.state(at: end), "a reader has what was there at the boundary")
    }

    func close() {
        guard let cursor else { return }
        chronicle.vBucket.withCore { $0.closeCursor(cursor) }
        self.cursor = nil
    }
}
