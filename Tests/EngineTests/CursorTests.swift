import Bytes
import Engine
import Testing
import Vocabulary

@Suite struct CursorTests {
    private func expectExactAccount(_ chronicle: Chronicle) {
        let (recount, bytes, held) = chronicle.vBucket.withCore {
            ($0.recount(), $0.checkpoint.bytes, $0.checkpoint.bytesHeld)
        }
        #expect(chronicle.bucket.account.bytes == UInt64(recount))
        #expect(chronicle.bucket.account.checkpointBytes == UInt64(bytes))
        #expect(bytes == held)
    }

    /// Storage.md 6.4: any interleaving of writes, flushes, cursors, ejection and drops.
    @Test(arguments: 1...120)
    func readersReceiveVBucketStateAtEachBoundary(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let chronicle = try Chronicle(seed % 3 == 0 ? .ephemeral : .persistent)
        let isPersistent = chronicle.bucket.isPersistent
        let keys = Int.random(in: 1...120, using: &random)
        let writes = Int.random(in: 30...90, using: &random)
        let ejects = seed % 2 == 0
        var readers: [Reader] = []
        for step in 0..<2_000 {
            let dice = Int.random(in: 0..<100, using: &random)
            if dice < writes {
                let number = Int.random(in: 0..<keys, using: &random)
                if Int.random(in: 0..<8, using: &random) == 0 {
                    chronicle.delete(number)
                } else {
                    let count = Int.random(in: 0..<300, using: &random)
                    chronicle.set(number, [UInt8](repeating: UInt8(step & 0xff), count: count))
                }
            } else if dice < writes + 2, readers.count < 4 {
                readers.append(Reader(chronicle))
            } else if dice < writes + 3, isPersistent {
                if chronicle.drain == nil {
                    chronicle.beginCommit()
                } else {
                    chronicle.endCommit(fails: Int.random(in: 0..<5, using: &random) == 0)
                    if ejects { chronicle.eject() }
                }
            } else if dice < writes + 4 {
                _ = chronicle.vBucket.withCore { $0.dropSlowestCursor() }
            } else if dice < writes + 5, let reader = readers.randomElement(using: &random) {
                reader.close()
            } else if let reader = readers.randomElement(using: &random) {
                reader.step(bytesMax: Int.random(in: 1...2_000, using: &random))
            }
            if step % 40 == 0 { expectExactAccount(chronicle) }
        }
        chronicle.endCommit(fails: false)
        if isPersistent {
            chronicle.beginCommit()
            chronicle.endCommit(fails: false)
        }
        let high = Seqno(UInt64(chronicle.history.count))
        for reader in readers {
            for _ in 0..<100_000 where reader.position < high || reader.scan != nil {
                reader.step(bytesMax: 1_000)
            }
            #expect(reader.state == chronicle.state(at: high))
            reader.close()
        }
        expectExactAccount(chronicle)
        #expect(chronicle.bucket.account.checkpointBytes == 0, "no reader is left")
        chronicle.vBucket.withCore { $0.removeAll() }
        #expect(chronicle.bucket.account.bytes == 0)
    }

    /// Eight bytes for each of a million writes would be 8 MB.
    @Test func hotKeyWithStalledCursorUsesBoundedMemory() throws {
        let chronicle = try Chronicle(.ephemeral)
        let stage = chronicle.stage
        let value = [UInt8](repeating: 7, count: 100)
        for number in 0..<100 { chronicle.set(number, value) }
        let stuck = Reader(chronicle)
        stuck.step(bytesMax: 1)
        stuck.step(bytesMax: 1)
        let before = chronicle.bucket.account.bytes
        for _ in 0..<1_000_000 { _ = stage.store(chronicle.vBucket, key(1), value) }
        #expect(chronicle.bucket.account.bytes < before + 8_000)
        // Another one reads everything at once: each boundary pins a version, until the stuck one
        // is dropped.
        let quick = Reader(chronicle)
        for _ in 0..<50 {
            let source = chronicle.vBucket.withCore { $0.openChanges(after: $0.highSeqno) }
            guard case .memory(let cursor) = source else {
                Issue.record("a cursor can be placed at the end")
                return
            }
            quick.cursor = cursor
            for _ in 0..<1_000 { _ = stage.store(chronicle.vBucket, key(1), value) }
            let snapshot = chronicle.vBucket.withCore { $0.snapshot(cursor) }
            guard case .range = snapshot else {
                Issue.record("there is something to read")
                return
            }
            var seen = 0
            _ = chronicle.vBucket.withCore { $0.read(cursor, bytesMax: .max) { _ in seen += 1 } }
            #expect(seen == 1)
            quick.close()
        }
        #expect(chronicle.bucket.account.bytes < before + 70_000)
        let dropped = chronicle.vBucket.withCore { $0.dropSlowestCursor() }
        #expect(dropped == stuck.cursor)
        #expect(chronicle.bucket.account.checkpointBytes == 0)
        expectExactAccount(chronicle)
    }

    @Test func unreadChangesOfCursorAreNotEjected() throws {
        let chronicle = try Chronicle()
        for number in 0..<10 { chronicle.set(number, [UInt8](repeating: 1, count: 200)) }
        let reader = Reader(chronicle)
        reader.step(bytesMax: 1)
        reader.step(bytesMax: 600)
        let position = reader.position.value
        #expect(position > 0 && position < 10)
        chronicle.beginCommit()
        chronicle.endCommit(fails: false)
        chronicle.eject()
        let ejected = chronicle.vBucket.withCore { $0.ejectedCount }
        #expect(ejected == Int(position))
        reader.step(bytesMax: .max)
        chronicle.eject()
        let all = chronicle.vBucket.withCore { $0.ejectedCount }
        #expect(all == 10)
    }

    @Test func cursorsAreDroppedOnceChangesTakeAFifthOfTheQuota() throws {
        let chronicle = try Chronicle(.ephemeral, quota: 1 << 20)
        for number in 0..<100 { chronicle.set(number, [UInt8](repeating: 1, count: 1_000)) }
        let reader = Reader(chronicle)
        reader.step(bytesMax: 1)
        #expect(chronicle.bucket.dropSlowCursors() == [])
        for round in 0..<3 {
            for number in 0..<100 {
                chronicle.set(number, [UInt8](repeating: UInt8(round), count: 1_000))
            }
            // A fast reader closes boundaries: the changes that the slow reader has not read are
            // kept.
            let quick = Reader(chronicle)
            quick.step(bytesMax: 1)
            quick.close()
        }
        let account = chronicle.bucket.account
        #expect(account.checkpointBytes > account.checkpointShare)
        #expect(chronicle.bucket.dropSlowCursors() == [VBucketID(5)])
        #expect(account.checkpointBytes == 0, "no other reader had changes to read")
        expectExactAccount(chronicle)
        let cursor = try #require(reader.cursor)
        let snapshot = chronicle.vBucket.withCore { $0.snapshot(cursor) }
        #expect(snapshot == .dropped)
        for _ in 0..<1_000 { reader.step(bytesMax: 10_000) }
        #expect(reader.state == chronicle.state(at: Seqno(UInt64(chronicle.history.count))))
    }

    @Test func changeWakesWaitingReadersOnce() throws {
        let chronicle = try Chronicle(.ephemeral)
        let reader = Reader(chronicle)
        #expect(chronicle.stage.store(chronicle.vBucket, key(1), [1])?.wakesStreams == false)
        reader.step(bytesMax: 1)
        for _ in 0..<5 {
            reader.chronicle.vBucket.withCore { core in
                guard let cursor = reader.cursor else { return }
                while case .range = core.snapshot(cursor) {
                    _ = core.read(cursor, bytesMax: .max) { _ in }
                }
            }
        }
        #expect(chronicle.stage.store(chronicle.vBucket, key(1), [1])?.wakesStreams == true)
        #expect(chronicle.stage.store(chronicle.vBucket, key(1), [1])?.wakesStreams == false)
    }
}
