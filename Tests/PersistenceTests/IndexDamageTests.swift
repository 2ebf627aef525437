import Bytes
import Foundation
import Persistence
import TestSupport
import Testing
import Vocabulary

/// Index files that belong to another index, are damaged, or do not fit on the disk.
@Suite struct IndexDamageTests {
    let index = TemporaryIndex()

    private func fill(_ index: TemporaryIndex) throws {
        let file = try index.open()
        try file.commit { (transaction) throws(StorageError) in
            for node in 1...30 as ClosedRange<UInt64> {
                let content = [UInt8](repeating: UInt8(node), count: Int(node) * 130)
                try transaction.write(node: node, content)
            }
            for number in 0..<20 as Range<UInt16> {
                var vBucket = IndexVBucket(VBucketID(number))
                vBucket.seqno = Seqno(UInt64(number) * 1_000)
                try transaction.write(vBucket)
            }
            try transaction.write(value: 1, [UInt8](repeating: 9, count: 9_000))
            let slot = try transaction.addSlot(signature: "s", kind: 1, source: "_count")
            try transaction.write(reduction: slot.id, 1, [1, 2, 3])
            try transaction.write(log: [1, 2, 3])
            try transaction.write(chunk: 0, IndexRunID(.main, 1), [1, 2, 3])
            let fault = IndexFault(view: "v", document: [1], line: 1, text: "text")
            try transaction.add(fault)
        }
        try file.close()
    }

    /// Everything in the file, in a form that can be compared.
    private func contents(_ reads: IndexReads) throws(StorageError) -> [String] {
        var found = ["\(try reads.identity())", "\(try reads.head())", "\(try reads.slots())"]
        for node in 1...30 as ClosedRange<UInt64> {
            found.append("\(node): \(String(describing: try reads.content(node)))")
        }
        found.append("\(try reads.vBuckets())")
        found.append("\(String(describing: try reads.value(1)))")
        found.append("\(String(describing: try reads.reduction(IndexSlotID(1), 1)))")
        found.append("\(try reads.log())")
        found.append("\(try reads.runs())")
        found.append("\(String(describing: try reads.chunk(0, IndexRunID(.main, 1))))")
        found.append("\(try reads.faults())")
        return found
    }

    @Test func fileOfAnotherIndexIsRefusedByWhatDiffers() throws {
        try fill(index)
        let others: [(IndexIdentity, String)] = [
            (TemporaryIndex.identity(collator: "153.121/15.1"), "collator version"),
            (TemporaryIndex.identity(bucketUUID: "b2"), "bucket UUID"),
            (TemporaryIndex.identity(mapSource: "other"), "map function"),
        ]
        for (identity, name) in others {
            let refusal = index.refusal(identity)
            #expect(refusal?.code == .foreign)
            #expect(refusal?.description.contains(name) == true)
        }
        let other = "ff" + TemporaryIndex.signature.dropFirst(2)
        let path = "\(index.root)/\(other).sqlite"
        try FileManager.default.copyItem(atPath: index.path, toPath: path)
        let refusal = index.refusal(TemporaryIndex.identity(signature: other))
        #expect(refusal?.code == .foreign)
        #expect(refusal?.description.contains("its signature is") == true)
        #expect(index.refusal() == nil)
    }

    @Test func filesOfOtherProgramsAndReleasesAreRefused() throws {
        try fill(index)
        try index.execute("PRAGMA user_version = 2")
        #expect(index.refusal()?.code == .otherFormat)
        let other = #expect(throws: StorageError.self) {
            try index.directory().inspect(TemporaryIndex.signature)
        }
        #expect(other?.code == .otherFormat)
        try index.execute("PRAGMA user_version = 1; PRAGMA application_id = 7")
        #expect(index.refusal()?.code == .foreign)
        try Data(repeating: 7, count: 5_000).write(to: URL(filePath: index.path))
        #expect(index.refusal()?.code == .damaged)
    }

    @Test func damagedRowIsReportedByName() throws {
        let damages = [
            ("UPDATE meta SET value = 'b2' WHERE name = 'bucket_uuid'", "bucket_uuid"),
            ("DELETE FROM meta WHERE name = 'collator'", "collator"),
            ("UPDATE head SET next_node = 3", "head"), ("DELETE FROM head", "head"),
            ("UPDATE head SET state = 9", "head"),
            ("UPDATE vb SET seqno = seqno + 1 WHERE vb = 7", "vBucket 7"),
            ("UPDATE vb SET home = 4 WHERE vb = 7", "vBucket 7"),
            ("UPDATE vb SET vb = 70000 WHERE vb = 7", "vBucket 70000"),
            ("UPDATE big SET body = x'00'", "value 1"), ("UPDATE slot SET kind = 2", "slot 1"),
            ("UPDATE red SET body = x'00'", "reduction of node 1"),
            ("UPDATE log SET commit_no = 9", "log entry 9"),
            ("UPDATE run SET body = x'0102'", "chunk 0 of run 1"),
            ("UPDATE run SET chunk = 1", "run 1 is incomplete"),
            ("UPDATE err SET text = 'none'", "fault 1"),
        ]
        for (sql, name) in damages {
            let index = TemporaryIndex()
            try fill(index)
            try index.execute(sql)
            let damage = #expect(throws: StorageError.self, "\(sql)") {
                let file = try index.open()
                _ = try file.readNewest { reads throws(StorageError) in try contents(reads) }
            }
            #expect(damage?.code == .damaged, "\(sql)")
            let text = damage?.description ?? ""
            #expect(text.contains(name), "\(sql): \(text)")
        }
    }

    /// A flipped bit anywhere in the file yields the old contents or a typed error, never others.
    @Test func flippedBitYieldsTheOldContentsOrAnError() throws {
        try fill(index)
        let reader = try index.directory().inspect(TemporaryIndex.signature)
        let expected = try reader.use { reads throws(StorageError) in try contents(reads) }
        let seed: UInt64 = 20_261
        var random = SeededRandom(seed: seed)
        var outcomes: [StorageError.Code: Int] = [:]
        var unchanged = 0
        for round in 0..<400 {
            let damaged = try index.copy()
            try damaged.change { data in
                // Half of the flips hit the first pages, which have the header and the schema.
                let bound = round % 2 == 0 ? 3 * 4_096 : data.count
                data[random.below(bound)] ^= UInt8(1) << UInt8(random.below(8))
            }
            do {
                let reader = try damaged.directory().inspect(TemporaryIndex.signature)
                let found = try reader.use { reads throws(StorageError) in try contents(reads) }
                #expect(found == expected, "seed \(seed), round \(round)")
                unchanged += 1
                guard round % 8 == 0 else { continue }
                // Writing to such a file succeeds or fails, but ends no process.
                try damaged.open().commit { (transaction) throws(StorageError) in
                    for node in 1...30 as ClosedRange<UInt64> {
                        try transaction.write(node: node, [1])
                    }
                }
            } catch let error as StorageError {
                outcomes[error.code, default: 0] += 1
            }
        }
        #expect(outcomes[.damaged] ?? 0 > 100, "\(outcomes)")
        #expect(unchanged > 20, "\(unchanged)")
    }

    /// A power cut while frames of a commit are written leaves a WAL of any length.
    @Test func shortenedWALYieldsTheOldCommitOrTheNewOne() throws {
        let file = try index.open()
        var random = SeededRandom(seed: 5)
        var isOld = 0
        for number in 1...30 as ClosedRange<UInt8> {
            let before = try FileDisk().size(index.path + "-wal")
            try file.commit { (transaction) throws(StorageError) in
                for node in 1...10 as ClosedRange<UInt64> {
                    try transaction.write(node: node, [UInt8](repeating: number, count: 3_000))
                }
            }
            let added = Int(try FileDisk().size(index.path + "-wal") - before)
            guard added > 0 else { continue }
            let cut = try index.copy()
            let length = Int(before) + random.below(added)
            try cut.change(suffix: "-wal") { $0 = $0.prefix(length) }
            let opened = try cut.open()
            let commit = UInt64(try opened.head().commit.value)
            #expect(commit == UInt64(number) - 1)
            if commit == 0 { continue }
            isOld += 1
            try opened.readNewest { reads throws(StorageError) in
                for node in 1...10 as ClosedRange<UInt64> {
                    #expect(try reads.content(node)?.first == number - 1)
                }
            }
        }
        #expect(isOld > 20)
    }

    @Test func fullDiskRollsTheTransactionBack() throws {
        index.settings.filePagesMax = 60
        var file = try index.open()
        func commit(_ file: IndexFile, nodes: ClosedRange<UInt64>) throws {
            try file.commit { (transaction) throws(StorageError) in
                for node in nodes {
                    try transaction.write(node: node, [UInt8](repeating: 1, count: 4_000))
                }
                try transaction.writeLogEntry(.empty)
            }
        }
        try commit(file, nodes: 1...10)
        for _ in 0..<3 {
            let refused = #expect(throws: StorageError.self) { try commit(file, nodes: 11...90) }
            #expect(refused?.code == .full)
            try file.readNewest { reads throws(StorageError) in
                #expect(try reads.content(10) != nil)
                #expect(try reads.content(11) == nil)
                #expect(try reads.log().count == 1)
            }
        }
        // A smaller commit fits, and with more room the same one does.
        try commit(file, nodes: 11...12)
        try file.close()
        index.settings.filePagesMax = 0
        file = try index.open()
        try commit(file, nodes: 11...90)
        #expect(try file.head().commit == IndexCommit(3))
    }

    // MARK: Files

    @Test func unreadableIndexFileIsSetAsideAndRecreated() throws {
        try fill(index)
        try index.change { $0.replaceSubrange(0..<16, with: Data(repeating: 0, count: 16)) }
        #expect(index.refusal()?.code == .damaged)
        try Data([1]).write(to: URL(filePath: index.path + "-wal"))
        let directory = try index.directory()
        let aside = try directory.setAside(TemporaryIndex.signature, now: 99)
        #expect(aside == index.path + ".damaged-99")
        #expect(try directory.setAside(TemporaryIndex.signature, now: 99) == nil)
        #expect(try directory.signatures() == [])
        #expect(try index.open().head() == IndexHead())
        let names = try FileDisk().list(index.root).map { $0.dropFirst(32) }
        #expect(names == [".sqlite", ".sqlite.damaged-99", ".sqlite.damaged-99-wal"])
    }

    @Test func filesOfUnknownIndexesAreRemoved() throws {
        let directory = try index.directory()
        let names = [
            "aa.sqlite", "aa.sqlite-wal", "aa.sqlite-shm", "aa.sqlite.damaged-7", "bb.sqlite",
            "bb.sqlite-wal", "bb.sqlite.damaged-7", "cc.sqlite-wal", "notes.txt",
        ]
        for name in names { try FileDisk().replace("\(index.root)/\(name)", with: [1]) }
        #expect(try directory.signatures() == ["aa", "bb"])
        let removed = try directory.removeAll(except: ["bb"])
        #expect(removed.first == "aa.sqlite")
        let left = try FileDisk().list(index.root)
        #expect(left == ["bb.sqlite", "bb.sqlite-wal", "bb.sqlite.damaged-7", "notes.txt"])
        try directory.remove("bb")
        try directory.remove("bb")
        #expect(try FileDisk().list(index.root) == ["bb.sqlite.damaged-7", "notes.txt"])
    }
}
