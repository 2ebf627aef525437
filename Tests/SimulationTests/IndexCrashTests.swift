import Bytes
import Persistence
import Seams
import SimulatedPlatform
import Testing

/// Index files on a disk that crashes, loses power, fills up and fails syncs.
@Suite struct IndexCrashTests {
    /// What each commit of a file contains, also those whose outcome is unknown.
    private final class History {
        var walk: IndexWalk
        private var dumps: [UInt64: [IndexDump]] = [:]
        private(set) var committed: UInt64 = 0
        /// The newest commit that survives a power cut.
        private(set) var durable: UInt64 = 0

        init(_ dice: SeededRandom) {
            walk = IndexWalk(dice)
        }

        func commit(_ file: IndexFile) throws(StorageError) {
            let walk = self.walk
            var changed = walk
            committed = try file.commit { (transaction) throws(StorageError) in
                defer { self.walk = changed }
                let dump = try changed.change(transaction)
                // A commit of this number may have failed earlier, with or without effect.
                dumps[dump.head.commit.value, default: []].append(dump)
                return dump.head.commit.value
            }
        }

        func checkpoint(_ file: IndexFile) throws(StorageError) {
            let before = committed
            if try file.checkpoint().isComplete { durable = before }
        }

        /// Whether the file has exactly the content of one commit, from `oldest` on.
        func accepts(_ found: IndexDump, from oldest: UInt64) -> Bool {
            let commit = found.head.commit.value
            guard commit >= oldest, commit <= committed + 1 else { return false }
            guard commit > 0 else { return found.nodes.isEmpty && found.vBuckets.isEmpty }
            return dumps[commit]?.contains(found) == true
        }

        /// Continues from the commit that was found after a restart.
        func restart(at commit: UInt64) {
            committed = commit
            durable = min(durable, commit)
        }
    }

    private func dump(_ file: IndexFile) throws -> IndexDump {
        let head = try file.head()
        return try file.readNewest { reads throws(StorageError) in
            #expect(try reads.pageFaults() == [])
            return try IndexDump(reads, head: head)
        }
    }

    /// Runs lives of one file, each of which ends at a random disk operation.
    ///
    /// - Returns: How many lives ended inside a call, and how many lost commits.
    private func live(
        seeds: ClosedRange<UInt64>,
        isPower: Bool
    ) throws -> (cuts: Int, losses: Int) {
        var (cuts, losses) = (0, 0)
        for seed in seeds {
            let world = SimulatedWorld(seed: seed)
            var dice = world.random(for: "test")
            let history = History(world.random(for: "walk"))
            let host = world.addHost("10.0.0.1")
            for life in 0..<8 {
                let disk = host.start().disk
                do {
                    let file = try IndexWalk.open(disk)
                    let found = try dump(file)
                    let oldest = isPower ? history.durable : history.committed
                    // Evaluated first: a failed expectation would print all its operands.
                    let isKnown = history.accepts(found, from: oldest)
                    #expect(isKnown, "seed \(seed), life \(life)")
                    if found.head.commit.value < history.committed { losses += 1 }
                    history.restart(at: found.head.commit.value)
                    host.disk.cutAfter(operations: 1 + Int(dice.next() % 400), isPower: isPower)
                    for _ in 0..<30 {
                        try history.commit(file)
                        if dice.next() % 6 == 0 { try history.checkpoint(file) }
                    }
                    try file.close()
                } catch is StorageError {
                    cuts += 1
                }
                if isPower { host.cutPower() } else { host.crash() }
            }
        }
        return (cuts, losses)
    }

    @Test func crashLeavesTheLastIndexCommitOrTheInterruptedOne() throws {
        let (cuts, losses) = try live(seeds: 1...30, isPower: false)
        #expect(cuts > 100)
        #expect(losses == 0)
    }

    @Test func powerCutLeavesOneWholeIndexCommit() throws {
        let (cuts, losses) = try live(seeds: 1...50, isPower: true)
        #expect(cuts > 200)
        // Commits are not synced, so some are lost; a run without losses would test nothing.
        #expect(losses > 20)
    }

    /// After a failed write or sync the file is opened again; a power cut then must not mix commits.
    @Test func failedSyncMixesNoIndexCommits() throws {
        var (errors, cuts) = (0, 0)
        for seed in 1...120 as ClosedRange<UInt64> {
            let world = SimulatedWorld(seed: seed)
            var dice = world.random(for: "test")
            let history = History(world.random(for: "walk"))
            let host = world.addHost("10.0.0.1")
            for life in 0..<4 {
                let disk = host.start().disk
                for round in 0..<3 {
                    do {
                        let file = try IndexWalk.open(disk)
                        let found = try dump(file)
                        let oldest = round == 0 ? 0 : history.committed
                        let isKnown = history.accepts(found, from: oldest)
                        #expect(isKnown, "seed \(seed), life \(life), round \(round)")
                        history.restart(at: found.head.commit.value)
                        for _ in 0..<12 {
                            host.disk.errorsPerMille = 3
                            try history.commit(file)
                            if dice.next() % 3 > 0 { continue }
                            // A checkpoint begins with a sync of the WAL.
                            host.disk.errorsPerMille = 300
                            try history.checkpoint(file)
                        }
                        host.disk.errorsPerMille = 0
                        try file.close()
                    } catch is StorageError {
                        errors += 1
                    }
                    host.disk.errorsPerMille = 0
                }
                // The last opening continues without errors until the power cut.
                host.disk.cutAfter(operations: 1 + Int(dice.next() % 120), isPower: true)
                do {
                    let file = try IndexWalk.open(disk)
                    for _ in 0..<12 {
                        try history.commit(file)
                        try history.checkpoint(file)
                    }
                } catch {
                    cuts += 1
                }
                host.cutPower()
            }
        }
        #expect(errors > 300 && cuts > 100, "\(errors) errors, \(cuts) cuts")
    }

    @Test func fullDiskLeavesTheLastIndexCommitAndLaterCommitsSucceed() throws {
        let world = SimulatedWorld(seed: 7)
        let history = History(world.random(for: "walk"))
        let host = world.addHost("10.0.0.1")
        let file = try IndexWalk.open(host.start().disk)
        var refusals = 0
        for _ in 0..<20 {
            try history.commit(file)
            let before = try dump(file)
            world.apply(.diskFull("10.0.0.1", true))
            do {
                try history.commit(file)
            } catch {
                #expect(error.code == .full)
                let isUnchanged = try dump(file) == before
                #expect(isUnchanged)
                refusals += 1
            }
            world.apply(.diskFull("10.0.0.1", false))
        }
        #expect(refusals > 5)
        #expect(try file.checkpoint().isComplete)
    }

    /// The WAL's index is in memory only: a new process builds its own, and the old one has none.
    @Test func indexReadersShareTheWriterWithinOneProcess() throws {
        let world = SimulatedWorld(seed: 11)
        let history = History(world.random(for: "walk"))
        let host = world.addHost("10.0.0.1")
        let file = try IndexWalk.open(host.start().disk)
        try history.commit(file)
        let reader = try #require(try file.acquireReader())
        let head = try reader.begin()
        let before = try reader.use { reads throws(StorageError) in
            try IndexDump(reads, head: head)
        }
        for _ in 0..<20 {
            try history.commit(file)
            let result = try file.checkpoint()
            #expect(result.copiedPages < result.walPages)
        }
        let again = try reader.use { reads throws(StorageError) in
            try IndexDump(reads, head: try reads.head())
        }
        let isUnchanged = again == before
        #expect(isUnchanged)
        reader.end()
        #expect(try file.checkpoint().isComplete)
        let newest = try dump(file)
        host.crash()
        let dead = #expect(throws: StorageError.self) { try history.commit(file) }
        #expect(dead?.code == .failed)
        let opened = try IndexWalk.open(host.start().disk)
        let isNewest = try dump(opened) == newest
        #expect(isNewest)
        let other = try #require(try opened.acquireReader())
        #expect(try other.begin() == newest.head)
    }
}
