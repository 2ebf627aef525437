import Bytes
import Foundation
import Persistence
import TestSupport
import Testing
import Vocabulary

/// What an index file stores, and what its connections see.
@Suite struct IndexFileTests {
    let index = TemporaryIndex()

    @Test func newIndexFileIsEmptyAndBuilding() throws {
        let file = try index.open()
        #expect(try file.head() == IndexHead())
        try file.readNewest { reads throws(StorageError) in
            #expect(try reads.identity() == TemporaryIndex.identity())
            #expect(try reads.vBuckets() == [])
            #expect(try reads.slots() == [])
            #expect(try reads.runs() == [])
            #expect(try reads.content(1) == nil)
            #expect(try reads.vBucket(VBucketID(3)) == nil)
            #expect(try reads.value(1) == nil)
            #expect(try reads.log() == [:])
            #expect(try reads.faults() == [])
            #expect(try reads.pageFaults() == [])
        }
    }

    private func vBucket(_ number: UInt16) -> IndexVBucket {
        var vBucket = IndexVBucket(VBucketID(number))
        vBucket.home = .side
        vBucket.root = IndexNodeID(9)
        vBucket.rows = 77
        vBucket.uuid = VBucketUUID(.max - 5)
        vBucket.seqno = Seqno(1 << 47)
        vBucket.snapshotStart = Seqno(5)
        vBucket.snapshotEnd = Seqno(1 << 48 - 1)
        vBucket.logFloor = Seqno(4)
        return vBucket
    }

    @Test func committedRowsSurviveReopening() throws {
        var file = try index.open()
        let fault = IndexFault(view: "d/v", document: [0, 255], line: 3, text: "é: no number")
        let slot = try file.commit { (transaction) throws(StorageError) in
            try transaction.write(node: 9, [1, 2, 3])
            try transaction.write(value: 4, [7])
            try transaction.write(vBucket(1_023))
            try transaction.write(vBucket(0))
            try transaction.write(log: [8, 8])
            try transaction.add(fault)
            transaction.head.state = .ready
            transaction.head.main = IndexRoot(node: IndexNodeID(9), height: 1, version: 3, rows: 4)
            transaction.head.back = IndexRoot(node: IndexNodeID(8), height: 2, version: 3, rows: 4)
            transaction.head.nextValue = IndexValueID(5)
            let slot = try transaction.addSlot(signature: "s", kind: 200, source: "_sum")
            try transaction.write(reduction: slot.id, 9, [5])
            return slot
        }
        let head = try file.head()
        #expect(head.commit == IndexCommit(1))
        #expect(head.nextNode == IndexNodeID(10))
        try file.close()
        file = try index.open()
        #expect(try file.head() == head)
        try file.readNewest { reads throws(StorageError) in
            #expect(try reads.head() == head)
            #expect(try reads.content(9) == [1, 2, 3])
            #expect(try reads.value(4) == [7])
            #expect(try reads.vBuckets() == [vBucket(0), vBucket(1_023)])
            #expect(try reads.vBucket(VBucketID(1_023)) == vBucket(1_023))
            #expect(try reads.log() == [1: [8, 8]])
            #expect(try reads.log(after: 1) == [:])
            #expect(try reads.faults() == [fault])
            #expect(try reads.slots() == [slot])
            #expect(try reads.reduction(slot.id, 9) == [5])
        }
    }

    /// Random nodes of many sizes against a dictionary, with checkpoints, copies and reopening.
    @Test func randomCommitsAreReadBackAfterCrashes() throws {
        for seed in 1...4 as ClosedRange<UInt64> {
            let index = TemporaryIndex()
            var random = SeededRandom(seed: seed)
            var nodes: [UInt64: [UInt8]] = [:]
            var file = try index.open()
            for step in 0..<60 {
                try file.commit { (transaction) throws(StorageError) in
                    for _ in 0..<random.below(20) {
                        let id = UInt64(random.below(200) + 1)
                        if random.below(4) == 0 {
                            try transaction.removeNode(IndexNodeID(id))
                            nodes[id] = nil
                        } else {
                            let largest = random.below(10) == 0 ? 20_000 : 4_036
                            let content = random.bytes(random.below(largest))
                            try transaction.write(node: id, content)
                            nodes[id] = content
                        }
                    }
                }
                if random.below(6) == 0 { _ = try file.checkpoint() }
                if random.below(8) == 0 {
                    try file.close()
                    file = try index.open()
                }
                let copy = try index.copy()
                let crashed = try copy.open()
                #expect(try crashed.head().commit.value == UInt64(step + 1), "seed \(seed)")
                try crashed.readNewest { reads throws(StorageError) in
                    var found: [UInt64: [UInt8]] = [:]
                    try reads.forEachNode { id, body in
                        found[id.value] = indexContent(id.value, body)
                        return true
                    }
                    // Not the dictionaries themselves: a failure would print megabytes.
                    let isEqual = found == nodes
                    #expect(isEqual, "seed \(seed), step \(step), \(found.count) nodes")
                    if step % 20 == 0 { #expect(try reads.pageFaults() == []) }
                }
            }
        }
    }

    @Test func failedTransactionChangesNothing() throws {
        let file = try index.open()
        try file.commit { (transaction) throws(StorageError) in
            try transaction.write(node: 1, [1])
        }
        let before = try file.head()
        let stopped = StorageError(.gone, "the bucket was deleted")
        #expect(throws: stopped) {
            try file.commit { (transaction) throws(StorageError) in
                try transaction.write(node: 1, [2])
                try transaction.write(node: 2, [2])
                try transaction.writeLogEntry(.empty)
                transaction.head.state = .ready
                throw stopped
            }
        }
        #expect(try file.head() == before)
        try file.readNewest { reads throws(StorageError) in
            #expect(try reads.content(1) == [1])
            #expect(try reads.content(2) == nil)
            #expect(try reads.log() == [:])
        }
        // The file remains usable.
        try file.commit { (transaction) throws(StorageError) in
            try transaction.write(node: 2, [3])
        }
        #expect(try file.head().commit == IndexCommit(2))
    }

    @Test func logIsTrimmedThroughACommit() throws {
        let file = try index.open()
        for number in 1...5 as ClosedRange<UInt8> {
            try file.commit { (transaction) throws(StorageError) in
                try transaction.write(log: [number])
            }
        }
        try file.commit { (transaction) throws(StorageError) in
            try transaction.trimLog(through: IndexCommit(3))
        }
        try file.readNewest { reads throws(StorageError) in
            #expect(try reads.log() == [4: [4], 5: [5]])
            var first: [UInt64] = []
            try reads.forEachLogEntry(after: IndexCommit(0)) { commit, _ in
                first.append(commit.value)
                return false
            }
            #expect(first == [4])
        }
    }

    @Test func oldestOfMoreThanAHundredFaultsAreRemoved() throws {
        let file = try index.open()
        for round in 0..<5 {
            try file.commit { (transaction) throws(StorageError) in
                for number in 0..<30 {
                    let line = UInt32(round * 30 + number)
                    let fault = IndexFault(view: "d/v", document: [1], line: line, text: "t")
                    try transaction.add(fault)
                }
            }
        }
        let lines = try file.readNewest { reads throws(StorageError) in
            try reads.faults().map(\.line)
        }
        #expect(lines == Array(50..<150))
    }

    @Test func removedNodeLeavesNoReductionAndSlotIsRemovedInSteps() throws {
        let file = try index.open()
        let slots = try file.commit { (transaction) throws(StorageError) in
            let slots = [
                try transaction.addSlot(signature: "a", kind: 1, source: "_sum"),
                try transaction.addSlot(signature: "b", kind: 2, source: "function () {}"),
            ]
            for slot in slots {
                for node in 1...25 as ClosedRange<UInt64> {
                    try transaction.write(reduction: slot.id, node, [UInt8(node)])
                }
            }
            return slots
        }
        try file.commit { (transaction) throws(StorageError) in
            try transaction.removeNode(IndexNodeID(7))
            try transaction.removeReduction(slots[0].id, IndexNodeID(8))
        }
        try file.readNewest { reads throws(StorageError) in
            #expect(try reads.reduction(slots[0].id, 7) == nil)
            #expect(try reads.reduction(slots[1].id, 7) == nil)
            #expect(try reads.reduction(slots[0].id, 8) == nil)
            #expect(try reads.reduction(slots[1].id, 8) == [8])
        }
        var steps = 0
        while try file.commit({ (transaction) throws(StorageError) in
            try !transaction.removeSlot(slots[0].id, countMax: 10)
        }) { steps += 1 }
        #expect(steps == 2)
        try file.readNewest { reads throws(StorageError) in
            #expect(try reads.slots() == [slots[1]])
            #expect(try reads.reduction(slots[0].id, 1) == nil)
            #expect(try reads.reduction(slots[1].id, 1) == [1])
        }
    }

    @Test func nodesOfAnInterruptedLoadAreRemovedInSteps() throws {
        var file = try index.open()
        try file.commit { (transaction) throws(StorageError) in
            for node in 1...10 as ClosedRange<UInt64> { try transaction.write(node: node, [1]) }
        }
        // A bulk load writes nodes beyond the head's next number until it sets the roots.
        try file.commit { (transaction) throws(StorageError) in
            for node in 11...60 as ClosedRange<UInt64> {
                try transaction.writeBeyondHead(node: node, [2])
            }
            for value in 1...5 as ClosedRange<UInt64> {
                try transaction.write(IndexValueID(value), .empty)
            }
        }
        try file.close()
        file = try index.open()
        let head = try file.head()
        var removed: [Int] = []
        while removed.last ?? 20 == 20 {
            removed.append(
                try file.commit { (transaction) throws(StorageError) in
                    try transaction.removeNodes(from: head.nextNode, countMax: 20)
                }
            )
        }
        #expect(removed == [20, 20, 10])
        let values = try file.commit { (transaction) throws(StorageError) in
            try transaction.removeValues(from: head.nextValue, countMax: 100)
        }
        #expect(values == 5)
        try file.readNewest { reads throws(StorageError) in
            #expect(try reads.content(10) == [1])
            #expect(try reads.content(11) == nil)
            #expect(try reads.value(1) == nil)
        }
    }

    // MARK: Runs

    @Test func runsSurviveReopeningAndAreRemovedInSteps() throws {
        var file = try index.open()
        var random = SeededRandom(seed: 3)
        let runs = [IndexRunID(.main, 0), IndexRunID(.main, 7), IndexRunID(.back, 0)]
        let chunks = (0..<6).map { _ in random.bytes(64 << 10) }
        for run in runs {
            try file.commit { (transaction) throws(StorageError) in
                for (number, chunk) in chunks.enumerated() {
                    try transaction.write(chunk: UInt32(number), run, chunk)
                }
            }
        }
        try file.close()
        file = try index.open()
        try file.readNewest { reads throws(StorageError) in
            #expect(try reads.runs().map(\.id) == runs)
            #expect(try reads.runs().map(\.chunks) == [6, 6, 6])
            for run in runs {
                for (number, chunk) in chunks.enumerated() {
                    #expect(try reads.chunk(UInt32(number), run) == chunk)
                }
                #expect(try reads.chunk(6, run) == nil)
            }
        }
        var removed: [Int] = []
        while removed.last ?? 4 == 4 {
            removed.append(
                try file.commit { (transaction) throws(StorageError) in
                    try transaction.removeChunks(of: runs[1], countMax: 4)
                }
            )
        }
        #expect(removed == [4, 2])
        let left = try file.readNewest { reads throws(StorageError) in try reads.runs().map(\.id) }
        #expect(left == [runs[0], runs[2]])
    }

    @Test func freePagesOfRemovedRunsReturnToTheFileSystem() throws {
        let file = try index.open()
        let run = IndexRunID(.main, 1)
        try file.commit { (transaction) throws(StorageError) in
            for number in 0..<40 as Range<UInt32> {
                try transaction.write(chunk: number, run, [UInt8](repeating: 1, count: 64 << 10))
            }
        }
        _ = try file.checkpoint()
        let size = try FileDisk().size(index.path)
        try file.commit { (transaction) throws(StorageError) in
            _ = try transaction.removeChunks(of: run, countMax: 40)
        }
        var left = Int.max
        while left > 0 {
            let before = left
            left = try file.commit { (transaction) throws(StorageError) in
                try transaction.releaseFreePages(countMax: 200)
            }
            #expect(left < before)
            if left >= before { break }
        }
        _ = try file.checkpoint()
        #expect(try FileDisk().size(index.path) < size / 4)
    }

    // MARK: Compaction

    @Test func nodesOfReplacedTreeAreRemovedInSteps() throws {
        let file = try index.open()
        let slots = try file.commit { (transaction) throws(StorageError) in
            let slots = [
                try transaction.addSlot(signature: "a", kind: 1, source: "_sum"),
                try transaction.addSlot(signature: "b", kind: 2, source: "f"),
            ]
            for node in 1...30 as ClosedRange<UInt64> {
                try transaction.write(node: node, [1])
                try transaction.write(value: node, [2])
                for slot in slots { try transaction.write(reduction: slot.id, node, [3]) }
            }
            return slots
        }
        var removed: [[Int]] = []
        for _ in 0..<3 {
            removed.append(
                try file.commit { (transaction) throws(StorageError) in
                    [
                        try transaction.removeNodes(below: IndexNodeID(21), countMax: 12),
                        try transaction.removeValues(below: IndexValueID(6), countMax: 3),
                        try transaction.removeReductions(
                            slots[0].id,
                            below: IndexNodeID(11),
                            countMax: 7
                        ),
                    ]
                }
            )
        }
        #expect(removed == [[12, 3, 7], [8, 2, 3], [0, 0, 0]])
        try file.readNewest { reads throws(StorageError) in
            #expect(try reads.content(20) == nil)
            #expect(try reads.content(21) == [1])
            #expect(try reads.value(5) == nil)
            #expect(try reads.value(6) == [2])
            #expect(try reads.reduction(slots[0].id, 10) == nil)
            #expect(try reads.reduction(slots[0].id, 11) == [3])
            #expect(try reads.reduction(slots[1].id, 1) == [3])
            var values: [UInt64] = []
            try reads.forEachValue { id in
                values.append(id.value)
                return values.count < 3
            }
            #expect(values == [6, 7, 8])
        }
    }

    @Test func noteOfACompactionIsKeptUntilItIsRemoved() throws {
        var file = try index.open()
        let notes: [UnfinishedCompaction?] = [
            nil, .copy, .trees(below: IndexNodeID(7), IndexValueID(.max)), .copy, nil, nil,
        ]
        for note in notes {
            try file.commit { (transaction) throws(StorageError) in try transaction.write(note) }
            try file.close()
            file = try index.open()
            let found = try file.readNewest { (reads) throws(StorageError) in
                try reads.unfinishedCompaction()
            }
            #expect(found == note)
        }
    }
}
