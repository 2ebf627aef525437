import Bytes
import Indexing
import Testing

/// Batches that are answered in any order and leave in the order of reading.
@Suite struct MappingQueueTests {
    @Test func answeredBatchWaitsForTheBatchesBeforeIt() {
        var queue = MappingQueue<String, Int>()
        let (first, second) = (queue.add("a"), queue.add("b"))
        let isStored = queue.answer(second, 2)
        let early = queue.removeFirst()
        #expect(isStored && early == nil)
        _ = queue.answer(first, 1)
        let removed = [queue.removeFirst()?.0, queue.removeFirst()?.0, queue.removeFirst()?.0]
        #expect(removed == ["a", "b", nil] && queue.count == 0)
    }

    @Test func secondAnswerToABatchIsIgnored() {
        var queue = MappingQueue<String, Int>()
        let number = queue.add("a")
        let stored = [queue.answer(number, 1), queue.answer(number, 2)]
        #expect(stored == [true, false])
        let mapped = queue.removeFirst()?.1
        #expect(mapped == 1)
        let isStoredLate = queue.answer(number, 3)
        #expect(!isStoredLate)
    }

    @Test(arguments: 0..<50) func batchesAreRemovedInTheOrderOfReading(_ seed: UInt64) {
        var dice = SeededRandom(seed: seed)
        var queue = MappingQueue<Int, Int>()
        var (added, removed) = (0, 0)
        var unanswered: [UInt64] = []
        for _ in 0..<2_000 {
            switch Int(dice.next() % 3) {
            case 0:
                let number = queue.add(added)
                #expect(number == UInt64(added), "seed \(seed)")
                unanswered.append(number)
                added += 1
            case 1 where !unanswered.isEmpty:
                let number = unanswered.remove(at: Int(dice.next() % UInt64(unanswered.count)))
                let isStored = queue.answer(number, Int(number))
                #expect(isStored, "seed \(seed)")
            default:
                guard let (batch, mapped) = queue.removeFirst() else { continue }
                #expect(batch == removed && mapped == removed, "seed \(seed)")
                removed += 1
            }
            #expect(queue.count == added - removed, "seed \(seed)")
        }
        #expect(removed > 100, "seed \(seed)")
    }
}
