import Bytes
import Persistence
import Seams
import Vocabulary

/// Everything that a commit of an index file can change.
struct IndexDump: Equatable {
    var head: IndexHead
    var nodes: [UInt64: [UInt8]] = [:]
    var vBuckets: [IndexVBucket]
    var log: [UInt64: [UInt8]] = [:]
    var slots: [IndexSlot]
    var reductions: [UInt64: [UInt8]] = [:]
    var values: [UInt64: [UInt8]] = [:]
    var runs: [IndexRunID: [UInt8]] = [:]

    static let keys: ClosedRange<UInt64> = 1...40

    init(_ reads: IndexReads, head: IndexHead) throws(StorageError) {
        self.head = head
        vBuckets = try reads.vBuckets()
        slots = try reads.slots()
        var found: [UInt64: [UInt8]] = [:]
        try reads.forEachNode { id, body in
            found[id.value] = body.bytes
            return true
        }
        nodes = found
        found = [:]
        try reads.forEachLogEntry(after: IndexCommit(0)) { commit, body in
            found[commit.value] = body.bytes
            return true
        }
        log = found
        let writer = ByteWriter()
        for key in IndexDump.keys {
            writer.removeAll()
            if try reads.value(IndexValueID(key), into: writer) { values[key] = writer.bytes }
            for slot in slots {
                writer.removeAll()
                if try reads.reduction(slot.id, IndexNodeID(key), into: writer) {
                    reductions[UInt64(slot.id.value) << 32 | key] = writer.bytes
                }
            }
        }
        for run in try reads.runs() {
            writer.removeAll()
            for number in 0..<run.chunks {
                guard try reads.chunk(number, of: run.id, into: writer) else {
                    throw StorageError(.damaged, "run \(run.id.number) has no chunk \(number)")
                }
            }
            runs[run.id] = writer.bytes
        }
    }
}

/// Random commits of an index file.
struct IndexWalk {
    static let identity = IndexIdentity(
        signature: "00112233445566778899aabbccddeeff",
        collator: "153.120/15.0",
        bucketUUID: "b1",
        mapSource: "function (doc) { emit(doc.age, null) }"
    )

    var dice: SeededRandom
    private let bytes = ByteWriter()

    init(_ dice: SeededRandom) {
        self.dice = dice
    }

    static func open(_ disk: any Disk) throws(StorageError) -> IndexFile {
        let directory = try IndexDirectory(path: "/data/indexes", disk: disk)
        return try IndexFile(in: directory, identity: identity, settings: IndexSettings())
    }

    private mutating func below(_ bound: Int) -> Int { Int(dice.next() % UInt64(bound)) }

    private mutating func key() -> UInt64 { UInt64(below(40) + 1) }

    private mutating func body(_ bytesMax: Int) -> ByteView {
        bytes.removeAll()
        for _ in 0..<below(bytesMax) / 8 { bytes.append(littleEndian: dice.next()) }
        return bytes.view
    }

    /// Makes a few random changes.
    ///
    /// - Returns: What the file contains after the commit.
    mutating func change(_ transaction: IndexTransaction) throws(StorageError) -> IndexDump {
        for _ in 0..<(1 + below(6)) {
            switch below(9) {
            case 0: try transaction.removeNode(IndexNodeID(key()))
            case 1: try transaction.write(IndexValueID(key()), body(9_000))
            case 2: try transaction.removeValue(IndexValueID(key()))
            case 3: try changeSlots(transaction)
            case 4: try changeRuns(transaction)
            default: try transaction.write(IndexNodeID(key()), body(4_036))
            }
        }
        var vBucket = IndexVBucket(VBucketID(UInt16(below(8))))
        vBucket.seqno = Seqno(transaction.head.commit.value)
        try transaction.write(vBucket)
        try transaction.writeLogEntry(body(600))
        if below(4) == 0 {
            let commit = transaction.head.commit.value
            try transaction.trimLog(through: IndexCommit(commit - min(commit, 5)))
        }
        transaction.head.main = IndexRoot(node: IndexNodeID(key()), height: 1, version: 3, rows: 4)
        return try IndexDump(transaction.reads, head: transaction.head)
    }

    private mutating func changeSlots(_ transaction: IndexTransaction) throws(StorageError) {
        let slots = try transaction.reads.slots()
        if slots.count < 2 {
            _ = try transaction.addSlot(signature: "s", kind: 1, source: "_sum")
        } else if below(4) == 0 {
            _ = try transaction.removeSlot(slots[below(slots.count)].id, countMax: 3)
        }
        for slot in slots.prefix(1) where try transaction.reads.slots().contains(slot) {
            try transaction.writeReduction(slot.id, IndexNodeID(key()), body: body(300))
        }
    }

    private mutating func changeRuns(_ transaction: IndexTransaction) throws(StorageError) {
        let run = IndexRunID(below(2) == 0 ? .main : .back, UInt32(below(3)))
        if try transaction.removeChunks(of: run, countMax: 2) > 0 { return }
        for number in 0..<UInt32(1 + below(4)) {
            try transaction.writeChunk(number, of: run, body(20_000))
        }
    }
}
