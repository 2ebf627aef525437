import Bytes
import Foundation
import Persistence
import TestSupport
import Testing
import Vocabulary

/// Readers and checkpoints of an index file beside its writer.
@Suite struct IndexReaderTests {
    let index = TemporaryIndex()

    private func commit(_ file: IndexFile, _ content: [UInt8]) throws {
        try file.commit { (transaction) throws(StorageError) in
            for node in 1...20 as ClosedRange<UInt64> {
                try transaction.write(node: node, content)
            }
        }
    }

    @Test func indexReaderKeepsItsSnapshotWhileTheWriterCommits() throws {
        let file = try index.open()
        try commit(file, [1])
        let reader = try #require(try file.acquireReader())
        #expect(try reader.begin().commit == IndexCommit(1))
        try commit(file, [2])
        try reader.use { reads throws(StorageError) in
            #expect(try reads.content(20) == [1])
            #expect(try reads.head().commit == IndexCommit(1))
        }
        reader.end()
        try reader.use { reads throws(StorageError) in #expect(try reads.content(20) == [2]) }
        #expect(try reader.begin().commit == IndexCommit(2))
        file.release(reader)
    }

    @Test func checkpointBesideALongIndexReaderBlocksNoCommit() throws {
        let file = try index.open()
        try commit(file, [1])
        #expect(try file.checkpoint().isComplete)
        #expect(file.walPages == 0)
        try commit(file, [2])
        let reader = try #require(try file.acquireReader())
        _ = try reader.begin()
        for number in 3...9 as ClosedRange<UInt8> {
            try commit(file, [number])
            let result = try file.checkpoint()
            #expect(result.copiedPages < result.walPages)
            #expect(file.walPages == result.walPages)
        }
        try reader.use { reads throws(StorageError) in #expect(try reads.content(1) == [2]) }
        reader.end()
        #expect(try file.checkpoint().isComplete)
        #expect(file.walPages == 0)
        // The next commit begins the WAL again.
        try commit(file, [10])
        #expect(file.walPages < 20)
    }

    @Test func releasedIndexReaderReadsEveryLaterCommit() throws {
        let file = try index.open()
        for number in 1...5 as ClosedRange<UInt8> {
            try commit(file, [number])
            for _ in 0..<3 {
                let reader = try #require(try file.acquireReader())
                #expect(try reader.begin().commit == IndexCommit(UInt64(number)))
                try reader.use { reads throws(StorageError) in
                    #expect(try reads.content(20) == [number])
                    #expect(try reads.head().commit == IndexCommit(UInt64(number)))
                }
                file.release(reader)
            }
        }
        // A reader that has no snapshot of its own sees the newest commit too.
        let reader = try #require(try file.acquireReader())
        try commit(file, [6])
        try reader.use { reads throws(StorageError) in #expect(try reads.content(20) == [6]) }
        file.release(reader)
    }

    @Test func commitAfterAcquireIsInTheSnapshot() throws {
        let file = try index.open()
        try commit(file, [1])
        let first = try #require(try file.acquireReader())
        _ = try first.begin()
        file.release(first)
        let again = try #require(try file.acquireReader())
        #expect(again === first)
        try commit(file, [2])
        #expect(try again.begin().commit == IndexCommit(2))
        // A snapshot from before a commit is not used again.
        try commit(file, [3])
        file.release(again)
        let third = try #require(try file.acquireReader())
        #expect(try third.begin().commit == IndexCommit(3))
        try third.use { reads throws(StorageError) in #expect(try reads.content(20) == [3]) }
        file.release(third)
    }

    @Test func indexReaderReleasedDuringCommitReadsThatCommit() throws {
        let file = try index.open()
        try commit(file, [1])
        try file.commit { (transaction) throws(StorageError) in
            if let reader = try file.acquireReader() {
                #expect(try reader.begin().commit == IndexCommit(1))
                file.release(reader)
            }
            try transaction.write(node: 20, [2])
        }
        let reader = try #require(try file.acquireReader())
        #expect(try reader.begin().commit == IndexCommit(2))
        try reader.use { reads throws(StorageError) in #expect(try reads.content(20) == [2]) }
        file.release(reader)
    }

    @Test func releasedIndexReadersDoNotBlockCheckpoint() throws {
        index.settings.readersMax = 3
        let file = try index.open()
        for number in 1...20 as ClosedRange<UInt8> {
            try commit(file, [number])
            let readers = try (0..<3).map { _ in try #require(try file.acquireReader()) }
            for reader in readers { _ = try reader.begin() }
            for reader in readers { file.release(reader) }
            #expect(try file.checkpoint().isComplete)
            #expect(file.walPages == 0)
            // Some readers have a snapshot of the file without the WAL.
            let reader = try #require(try file.acquireReader())
            _ = try reader.begin()
            file.release(reader)
        }
        try commit(file, [21])
        #expect(file.walPages < 20)
    }

    @Test func readersBeyondTheMaximumAreRefusedUntilOneIsReleased() throws {
        index.settings.readersMax = 2
        let file = try index.open()
        let one = try #require(try file.acquireReader())
        let two = try #require(try file.acquireReader())
        #expect(try file.acquireReader() == nil)
        file.release(one)
        let again = try #require(try file.acquireReader())
        #expect(again === one)
        #expect(try file.acquireReader() == nil)
        file.release(two)
        file.release(again)
        file.closeIdleReaders()
        #expect(throws: StorageError.self) { _ = try one.begin() }
        #expect(try file.acquireReader() != nil)
    }

    @Test func indexReaderWhoseReadFailedIsNotUsedAgain() throws {
        let file = try index.open()
        try commit(file, [1])
        let failed = try #require(try file.acquireReader())
        _ = try failed.begin()
        file.release(failed)
        // The failing read is the first one of the snapshot that the release has kept.
        #expect(try file.acquireReader() === failed)
        _ = try failed.begin()
        #expect(throws: StorageError.self) {
            try failed.use { _ throws(StorageError) in throw StorageError(.failed, "a bad sector") }
        }
        file.release(failed)
        let next = try #require(try file.acquireReader())
        #expect(next !== failed)
        #expect(try next.begin().commit == IndexCommit(1))
        try next.use { reads throws(StorageError) in #expect(try reads.content(20) == [1]) }
        file.release(next)
        #expect(throws: StorageError.self) { _ = try failed.begin() }
        // Its snapshot does not keep the WAL.
        #expect(try file.checkpoint().isComplete)
        #expect(file.walPages == 0)
    }

    /// The second release closes the reader, which waits for the next caller.
    @Test func indexReaderThatWasClosedWhileIdleIsNotUsedAgain() throws {
        index.settings.readersMax = 1
        let file = try index.open()
        try commit(file, [1])
        let closed = try #require(try file.acquireReader())
        _ = try closed.begin()
        file.release(closed)
        file.release(closed)
        let next = try #require(try file.acquireReader())
        #expect(next !== closed)
        #expect(try next.begin().commit == IndexCommit(1))
        file.release(next)
        #expect(try file.acquireReader() === next)
    }

    @Test func readerOfClosedIndexFileFailsAsGone() throws {
        let file = try index.open()
        try commit(file, [1])
        let reader = try #require(try file.acquireReader())
        _ = try reader.begin()
        try file.close()
        let refused = #expect(throws: StorageError.self) {
            try reader.use { reads throws(StorageError) in _ = try reads.content(1) }
        }
        #expect(refused?.code == .gone)
        file.release(reader)
        for call in [
            { try commit(file, [2]) }, { _ = try file.checkpoint() }, { _ = try file.head() },
            { _ = try file.acquireReader() },
        ] as [() throws -> Void] {
            let refused = #expect(throws: StorageError.self) { try call() }
            #expect(refused?.code == .gone)
        }
        try file.close()
        // The WAL was copied and removed with the last connection.
        #expect(try FileDisk().list(index.root) == ["\(TemporaryIndex.signature).sqlite"])
    }

    @Test func openIndexFileCanBeInspectedReadOnly() throws {
        let file = try index.open()
        try commit(file, [1])
        let directory = try index.directory()
        for isOpen in [true, false] {
            let reader = try directory.inspect(TemporaryIndex.signature)
            #expect(try reader.begin().commit == IndexCommit(1))
            try reader.use { reads throws(StorageError) in
                #expect(try reads.identity() == TemporaryIndex.identity())
                #expect(try reads.content(3) == [1])
                #expect(try reads.pageFaults() == [])
            }
            if isOpen { try file.close() }
        }
        let missing = #expect(throws: StorageError.self) { _ = try directory.inspect("none") }
        #expect(missing?.code == .missing)
    }

    @Test func memoryOfIndexConnectionsStaysNearTheirCacheSize() throws {
        index.settings.cacheBytes = 256 << 10
        let file = try index.open()
        for part in 0..<10 {
            try file.commit { (transaction) throws(StorageError) in
                for node in 1...200 {
                    let id = UInt64(part * 200 + node)
                    try transaction.write(node: id, [UInt8](repeating: 1, count: 4_000))
                }
            }
        }
        #expect(file.memoryBytes > 100 << 10)
        #expect(file.memoryBytes < 600 << 10)
        let before = file.memoryBytes
        let reader = try #require(try file.acquireReader())
        for node in 1...2_000 as ClosedRange<UInt64> {
            try reader.use { reads throws(StorageError) in #expect(try reads.content(node) != nil) }
        }
        let both = file.memoryBytes
        #expect(both > before + (100 << 10))
        #expect(both < before + (600 << 10))
        file.release(reader)
        file.closeIdleReaders()
        #expect(file.memoryBytes <= before + (16 << 10))
        try file.close()
        #expect(file.memoryBytes == 0)
    }

    /// Each commit gives all nodes of the tree the same content; a reader on another thread never finds the
    /// contents of two commits.
    @Test func readersOnOtherThreadsSeeOneCommit() throws {
        let file = try index.open()
        try commit(file, [0])
        let isDone = Guarded(false)
        let failures = Guarded<[String]>([])
        let snapshots = Guarded(0)
        let group = DispatchGroup()
        for _ in 0..<3 {
            let thread = Thread {
                defer { group.leave() }
                do throws(StorageError) {
                    guard let reader = try file.acquireReader() else { return }
                    while !isDone.withLock({ $0 }) {
                        let head = try reader.begin()
                        let found = try reader.use { reads throws(StorageError) in
                            var found: Set<[UInt8]?> = []
                            for node in 1...20 as ClosedRange<UInt64> {
                                found.insert(try reads.content(node))
                            }
                            return found
                        }
                        let expected = UInt8(truncatingIfNeeded: head.commit.value - 1)
                        if found != [[expected]] {
                            failures.withLock { $0.append("\(head.commit): \(found)") }
                        }
                        snapshots.withLock { $0 += 1 }
                        reader.end()
                    }
                    file.release(reader)
                } catch {
                    failures.withLock { $0.append(error.description) }
                }
            }
            group.enter()
            thread.start()
        }
        for number in 1...400 {
            try commit(file, [UInt8(truncatingIfNeeded: number)])
            if number % 50 == 0 { _ = try file.checkpoint() }
        }
        isDone.withLock { $0 = true }
        #expect(group.wait(timeout: .now() + 60) == .success)
        #expect(failures.withLock { $0 } == [])
        #expect(snapshots.withLock { $0 } > 0)
    }

    /// The process ended while the file had a rollback journal: only a new file has one.
    @Test func fileWhoseCreationWasInterruptedNamesCauseAndCure() throws {
        let directory = FileManager.default.temporaryDirectory
            .appendingPathComponent("divan-interrupted-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: directory) }
        let (whole, killed) = (directory.path + "/whole", directory.path + "/killed")
        let connection = try SQLiteConnection(path: whole, mode: .create, vfs: nil)
        try connection.execute("PRAGMA cache_size = 1; CREATE TABLE t(x); BEGIN")
        for _ in 0..<200 { try connection.execute("INSERT INTO t VALUES(randomblob(2000))") }
        for end in ["", "-journal"] {
            try FileManager.default.copyItem(atPath: whole + end, toPath: killed + end)
        }
        let error = #expect(throws: StorageError.self) {
            _ = try IndexReader.inspect(path: killed, vfs: nil)
        }
        #expect(error?.code == .denied)
        #expect(error?.description.contains("its next start completes it") == true)
    }
}
