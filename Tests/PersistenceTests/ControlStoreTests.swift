import Bytes
import Foundation
import Persistence
import TestSupport
import Testing
import Vocabulary

@Suite struct ControlStoreTests {
    let directory = ControlDirectory()

    func begun(_ directory: ControlDirectory) throws -> ControlStore {
        let store = try directory.open()
        let empty = ControlSnapshot(mark: ControlModel.mark(0, term: 0), state: [])
        try store.begin(with: empty, hardState: ControlHardState())
        return store
    }

    func entry(_ index: UInt64, term: UInt64 = 1, _ text: String) -> ControlEntry {
        ControlEntry(
            position: ControlPosition(term: term, index: index),
            kind: 1,
            bytes: Array(text.utf8)
        )
    }

    @Test func newFileHasNoHistoryBeforeBegin() throws {
        let store = try directory.open()
        #expect(try store.load() == nil)
        #expect(try store.snapshot() == nil)
        let snapshot = ControlSnapshot(mark: ControlModel.mark(7, term: 2), state: [1, 2, 3])
        let hardState = ControlHardState(term: 2, vote: 1, commit: 7)
        try store.begin(with: snapshot, hardState: hardState, facts: [("one", [9])])
        let again = try directory.open()
        #expect(try again.load()?.hardState == hardState)
        #expect(try again.load()?.base == ControlPosition(term: 2, index: 7))
        #expect(try again.snapshot() == snapshot)
        #expect(try again.fact("one") == [9])
    }

    @Test func beginRemovesTheOldHistory() throws {
        let store = try begun(directory)
        let seal = ControlSeal(vBucket: VBucketID(3), fence: 9, term: 1)
        try store.commit([
            .append([entry(1, "a")]), .seals(bucketUUID: "b", [seal]), .fact(name: "one", [1]),
        ])
        let snapshot = ControlSnapshot(mark: ControlModel.mark(0, term: 0), state: [5])
        try store.begin(with: snapshot, hardState: ControlHardState(), keepsSeals: true)
        #expect(try store.load()?.entries == [])
        #expect(try store.seals(ofBucket: "b") == [seal])
        #expect(try store.fact("one") == [1])
        try store.begin(with: snapshot, hardState: ControlHardState(), facts: [("one", nil)])
        #expect(try store.seals(ofBucket: "b") == [])
        #expect(try store.fact("one") == nil)
    }

    @Test func crashAfterCommitKeepsAllChanges() throws {
        for seed in UInt64(1)...6 {
            let directory = ControlDirectory()
            let store = try begun(directory)
            var walk = ControlWalk(seed: seed)
            for step in 0..<120 {
                try store.commit(walk.next())
                if step % 7 == 3 { try store.close() }
                let crashed = try ControlModel.found(in: try directory.copy().open())
                #expect(crashed == walk.model.withoutStaged, "seed \(seed), step \(step)")
                if crashed != walk.model.withoutStaged { return }
            }
        }
    }

    @Test func powerCutDuringCommitKeepsAllChangesOrNone() throws {
        let store = try begun(directory)
        var walk = ControlWalk(seed: 77)
        var whole = 0
        for step in 0..<60 {
            let before = walk.model.withoutStaged
            let size = directory.walBytes
            try store.commit(walk.next())
            // Power fails while the commit's pages are being written.
            let crashed = try directory.copy()
            let new = directory.walBytes
            guard new > size else { continue }
            let cut = size + walk.dice.below(new - size)
            try crashed.change("control.sqlite-wal") { $0 = $0.prefix(cut) }
            let found = try ControlModel.found(in: try crashed.open())
            let isOld = found == before
            #expect(isOld || found == walk.model.withoutStaged, "step \(step)")
            if !isOld { whole += 1 }
        }
        #expect(whole < 10, "truncating the WAL removes the commit")
    }

    @Test func stagedSnapshotReplacesNothingUntilInstalled() throws {
        let store = try begun(directory)
        try store.commit([.append([entry(1, "a"), entry(2, "b")])])
        let mark = ControlModel.mark(9, term: 3)
        try store.commit([.stage(mark)])
        try store.commit([.stageChunk(number: 0, bytes: [1, 2])])
        #expect(try directory.copy().open().load()?.entries.count == 2)
        try store.commit([.stage(mark)])
        try store.commit([.stageChunk(number: 0, bytes: [7])])
        // A repeated chunk is stored once.
        try store.commit([.stageChunk(number: 1, bytes: [8]), .stageChunk(number: 1, bytes: [8])])
        let hardState = ControlHardState(term: 3, vote: 0, commit: 9)
        try store.commit([
            .installStaged, .append([entry(10, term: 3, "c")]), .hardState(hardState),
        ])
        let contents = try #require(try directory.copy().open().load())
        #expect(contents.snapshot == mark)
        #expect(contents.entries.map(\.position.index) == [10])
        #expect(contents.hardState == hardState)
        #expect(try store.snapshot()?.state == [7, 8])
    }

    @Test func prunedFileReturnsFreePages() throws {
        let store = try begun(directory)
        var dice = SeededRandom(seed: 4)
        var index: UInt64 = 0
        var largest = 0
        for round in 0..<60 {
            let entries = (1...50).map { offset in
                ControlEntry(
                    position: ControlPosition(term: 1, index: index + offset),
                    kind: 1,
                    bytes: dice.bytes(8_000)
                )
            }
            index += 50
            try store.commit([.append(entries)])
            let state = dice.bytes(round == 10 ? 12 << 20 : 300_000)
            let mark = ControlModel.mark(index, term: 1)
            try store.commit([.snapshot(ControlSnapshot(mark: mark, state: state))])
            try store.commit([.prune(ControlPosition(term: 1, index: index - 10))])
            largest = max(largest, directory.bytes)
        }
        try store.close()
        #expect(largest > 12 << 20)
        #expect(directory.bytes < 3 << 20, "\(directory.bytes)")
    }

    // MARK: Damaged files

    @Test(arguments: ["hard_state", "log", "chunk", "snapshot", "seal", "fact"])
    func changedRowIsReportedAsDamaged(_ table: String) throws {
        let store = try begun(directory)
        try store.commit([
            .append([entry(1, "a"), entry(2, "b")]), .hardState(ControlHardState(term: 4)),
            .fact(name: "one", [1, 2]),
            .seals(bucketUUID: "b", [ControlSeal(vBucket: VBucketID(1), fence: 4, term: 1)]),
        ])
        try store.close()
        let columns = [
            "hard_state": "vote = vote + 1", "log": "bytes = x'00'", "chunk": "bytes = x'0102'",
            "snapshot": "configuration = x'09'", "seal": "fence = fence + 1",
            "fact": "bytes = x'00'",
        ]
        let connection = try SQLiteConnection(path: directory.path, mode: .write, vfs: nil)
        try connection.execute("UPDATE \(table) SET \(try #require(columns[table]))")
        let damaged = try directory.open()
        let error = #expect(throws: StorageError.self) { try ControlModel.found(in: damaged) }
        #expect(error?.code == .damaged)
        #expect(error?.description.contains("checksum") == true)
        #expect(error?.description.contains("Restore") == false)
        #expect(error?.description.contains("add it again with an empty data directory") == true)
    }

    @Test(arguments: [
        "DELETE FROM log WHERE idx = 1", "DELETE FROM hard_state", "DELETE FROM chunk",
        "DELETE FROM snapshot", "UPDATE log SET idx = 9 WHERE idx = 2",
    ])
    func missingRowIsReportedAsDamaged(_ statement: String) throws {
        let store = try begun(directory)
        try store.commit([.append([entry(1, "a"), entry(2, "b"), entry(3, "c")])])
        try store.close()
        let connection = try SQLiteConnection(path: directory.path, mode: .write, vfs: nil)
        try connection.execute(statement)
        let damaged = try directory.open()
        let error = #expect(throws: StorageError.self) { try ControlModel.found(in: damaged) }
        #expect(error?.code == .damaged)
    }

    @Test func filesOfOtherProgramsAndFormatsAndInvalidOnesAreRefused() throws {
        let store = try begun(directory)
        try store.close()
        let foreign = try directory.copy()
        let connection = try SQLiteConnection(path: foreign.path, mode: .write, vfs: nil)
        try connection.execute("PRAGMA application_id = 7")
        let foreignError = #expect(throws: StorageError.self) { try foreign.open() }
        #expect(foreignError?.code == .foreign)

        let other = try directory.copy()
        let future = try SQLiteConnection(path: other.path, mode: .write, vfs: nil)
        try future.execute("PRAGMA user_version = 99")
        let otherError = #expect(throws: StorageError.self) { try other.open() }
        #expect(otherError?.code == .otherFormat)
        #expect(otherError?.description.contains("(format 99, this program reads 1)") == true)

        try directory.change("control.sqlite") { $0 = Data(repeating: 7, count: $0.count) }
        let broken = #expect(throws: StorageError.self) { try directory.open() }
        #expect(broken?.code == .damaged)
        #expect(broken?.description.contains("add it again with an empty data directory") == true)
    }

    @Test func commitOnFullDiskChangesNothing() throws {
        let store = try begun(directory)
        try store.commit([.append([entry(1, "a")])])
        try store.limit(pages: 1)
        let big = String(repeating: "x", count: 100_000)
        let error = #expect(throws: StorageError.self) {
            try store.commit([.hardState(ControlHardState(term: 9)), .append([entry(2, big)])])
        }
        #expect(error?.code == .full)
        // A commit that fits into free pages is refused too.
        let small = #expect(throws: StorageError.self) {
            try store.commit([.hardState(ControlHardState(term: 9))])
        }
        #expect(small?.code == .full && small?.description.contains("full") == true)
        #expect(try store.load()?.hardState.term == 0)
        #expect(try store.load()?.entries.count == 1)
        try store.limit(pages: 0)
        try store.commit([.hardState(ControlHardState(term: 9)), .append([entry(2, big)])])
        #expect(try store.load()?.entries.count == 2)
    }
}

extension ControlDirectory {
    var walBytes: Int {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path + "-wal")
        return (attributes?[.size] as? NSNumber)?.intValue ?? 0
    }
}
