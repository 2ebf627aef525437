import Bytes
import Persistence
import Seams
import SimulatedPlatform
import Testing

/// A control store on a disk whose syncs fail and that then loses power.
@Suite struct LogAfterErrorTests {
    private func fact(_ number: Int) -> ControlChange {
        .fact(name: "number", Array("\(number)".utf8))
    }

    private func number(_ store: ControlStore) throws -> Int {
        guard let bytes = try store.fact("number") else { return 0 }
        return try #require(Int(String(decoding: bytes, as: UTF8.self)))
    }

    /// If the kernel dropped the new header of a WAL, a power cut restores the old WAL, whose
    /// replay over the file would undo later changes.
    @Test func storedChangeSurvivesAReplayOfTheOldWAL() throws {
        var (errors, cuts) = (0, 0)
        for seed in 1...300 as ClosedRange<UInt64> {
            let world = SimulatedWorld(seed: seed)
            var dice = world.random(for: "test")
            let host = world.addHost("10.0.0.1")
            var (kept, sent) = (0, 0)
            func commit(_ store: ControlStore) -> Bool {
                sent += 1
                guard (try? store.commit([fact(sent)])) != nil else { return false }
                kept = sent
                return true
            }
            for _ in 0..<8 {
                var store = try ControlStore(disk: host.start().disk, directory: "/data")
                let found = try number(store)
                #expect((kept...sent).contains(found), "seed \(seed)")
                (kept, sent) = (found, found)
                for _ in 0..<4 { _ = commit(store) }
                // After a checkpoint with truncation the next commit begins a new WAL.
                if dice.next() % 2 == 0 { try store.close() }
                host.disk.errorsPerMille = 150
                for _ in 0..<(1 + Int(dice.next() % 3)) where !commit(store) { errors += 1 }
                host.disk.errorsPerMille = 0
                host.crash()
                // The store continues from the state that it finds, until the power cut.
                let disk = host.start().disk
                host.disk.cutAfter(operations: 1 + Int(dice.next() % 30), isPower: true)
                do {
                    store = try ControlStore(disk: disk, directory: "/data")
                    let found = try number(store)
                    #expect((kept...sent).contains(found), "seed \(seed)")
                    kept = found
                    for _ in 0..<40 where !commit(store) {
                        cuts += 1
                        break
                    }
                } catch is StorageError {
                    cuts += 1
                }
                host.cutPower()
            }
        }
        #expect(errors > 300 && cuts > 300)
    }
}
