import Bytes
import CSQLite
import Seams
import SimulatedPlatform
import Testing

/// SQLite and small files on a disk that loses unsynced writes.
@Suite struct DiskTests {
    private func insert(_ number: Int) -> String {
        "INSERT INTO t(text) VALUES('row \(number) ' || hex(zeroblob(\(number % 7 * 300))))"
    }

    /// After power cuts inside commits, exactly the committed transactions are there, completely.
    @Test func committedSQLiteTransactionSurvivesPowerCuts() throws {
        var cutsInTheMiddle = 0
        for seed in 1...60 as ClosedRange<UInt64> {
            let world = SimulatedWorld(seed: seed)
            var dice = world.random(for: "test")
            let host = world.addHost("10.0.0.1")
            var committed = 0
            for _ in 0..<6 {
                let environment = host.start()
                try environment.disk.createDirectory("/data")
                do {
                    let database = try Database.durable("/data/a.sqlite", on: environment)
                    let count = Int(try database.text("SELECT count(*) FROM t")) ?? -1
                    // The transaction of the interrupted COMMIT may be there too.
                    #expect(count == committed || count == committed + 1, "seed \(seed)")
                    committed = count
                    #expect(try database.text("PRAGMA integrity_check") == "ok", "seed \(seed)")
                    host.disk.cutAfter(operations: Int(dice.next() % 150), isPower: true)
                    for _ in 0..<30 {
                        try database.run(insert(committed))
                        committed += 1
                        if dice.next() % 8 == 0 { try database.run("PRAGMA wal_checkpoint") }
                    }
                } catch is Database.Failure {
                    cutsInTheMiddle += 1
                }
                host.cutPower()
            }
        }
        #expect(cutsInTheMiddle > 100)
    }

    /// The same without syncs loses commits, which shows that the disk loses unsynced writes.
    @Test func unsyncedCommitMayBeLost() throws {
        var lost = 0
        for seed in 1...20 as ClosedRange<UInt64> {
            let world = SimulatedWorld(seed: seed)
            let host = world.addHost("10.0.0.1")
            var environment = host.start()
            try environment.disk.createDirectory("/data")
            var database: Database? = try .durable("/data/a.sqlite", on: environment)
            try database?.run("PRAGMA synchronous = OFF")
            for number in 0..<10 { try database?.run(insert(number)) }
            host.cutPower()
            database = nil
            environment = host.start()
            let found = try Database.durable("/data/a.sqlite", on: environment)
            if try found.text("SELECT count(*) FROM t") != "10" { lost += 1 }
        }
        #expect(lost > 10)
    }

    @Test func processCrashLosesNoWrite() throws {
        let world = SimulatedWorld(seed: 9)
        let host = world.addHost("10.0.0.1")
        var environment = host.start()
        try environment.disk.createDirectory("/data")
        let before = try Database.durable("/data/a.sqlite", on: environment)
        try before.run("PRAGMA synchronous = OFF")
        for number in 0..<10 { try before.run(insert(number)) }
        host.crash()
        #expect(throws: Database.Failure.self) { try before.run(insert(11)) }
        environment = host.start()
        let after = try Database.durable("/data/a.sqlite", on: environment)
        #expect(try after.text("SELECT count(*) FROM t") == "10")
        // The ended process's handle still exists and must have no effect.
        #expect(throws: Database.Failure.self) { try before.text("SELECT count(*) FROM t") }
    }

    @Test func readerKeepsItsSnapshotAndBlocksTruncationOfTheWAL() throws {
        let world = SimulatedWorld(seed: 9)
        let environment = world.addHost("10.0.0.1").start()
        try environment.disk.createDirectory("/data")
        let writer = try Database.durable("/data/a.sqlite", on: environment)
        for number in 0..<5 { try writer.run(insert(number)) }
        let reader = try Database("/data/a.sqlite", on: environment)
        let finish = try reader.begin("SELECT id FROM t")
        try writer.run(insert(6))
        #expect(try reader.text("SELECT count(*) FROM t") == "5")
        #expect(try writer.text("PRAGMA wal_checkpoint(TRUNCATE)") == "1")
        finish()
        #expect(try writer.text("PRAGMA wal_checkpoint(TRUNCATE)") == "0")
        #expect(try reader.text("SELECT count(*) FROM t") == "6")
        #expect(try environment.disk.size("/data/a.sqlite-wal") == 0)
    }

    @Test func writeToAFullDiskFails() throws {
        let world = SimulatedWorld(seed: 9)
        let environment = world.addHost("10.0.0.1").start()
        try environment.disk.createDirectory("/data")
        let database = try Database.durable("/data/a.sqlite", on: environment)
        world.apply(.diskFull("10.0.0.1", true))
        let failure = #expect(throws: Database.Failure.self) { try database.run(insert(1)) }
        #expect(failure?.code == SQLITE_FULL)
        let refused = #expect(throws: DiskError.self) {
            try environment.disk.replace("/data/b", with: [1])
        }
        #expect(refused?.code == .full)
        world.apply(.diskFull("10.0.0.1", false))
        try database.run(insert(1))
    }

    @Test func flippedByteIsDetected() throws {
        let world = SimulatedWorld(seed: 9)
        let environment = world.addHost("10.0.0.1").start()
        try environment.disk.replace("/a", with: Array(repeating: 0, count: 100))
        world.apply(.flippedByte("10.0.0.1", suffix: "a"))
        let content = try #require(try environment.disk.read("/a"))
        #expect(content.count { $0 != 0 } == 1)
    }

    @Test func slowDiskDelaysOnlyTheCallingLane() throws {
        let world = SimulatedWorld(seed: 9)
        let environment = world.addHost("10.0.0.1").start()
        world.apply(.diskSlow("10.0.0.1", nanoseconds: 100_000_000))
        let lanes = ["writer", "reader"].map { environment.lanes.makeLane($0) }
        let at = Guarded<[String: UInt64]>([:])
        let began = environment.time.monotonicNanoseconds()
        for lane in lanes {
            lane.post { if lane.name == "writer" { _ = try? environment.disk.read("/a") } }
            lane.post {
                let now = environment.time.monotonicNanoseconds() - began
                at.withLock { $0[lane.name] = now }
            }
        }
        world.run(for: 1_000_000_000)
        let (writer, reader) = at.withLock { ($0["writer"] ?? 0, $0["reader"] ?? .max) }
        #expect(writer >= 100_000_000)
        #expect(reader < 1_000_000)
    }

    @Test func hostsHaveSeparateDisks() throws {
        let world = SimulatedWorld(seed: 9)
        let environments = ["10.0.0.1", "10.0.0.2"].map { world.addHost($0).start() }
        for (number, environment) in environments.enumerated() {
            try environment.disk.createDirectory("/data")
            let database = try Database.durable("/data/a.sqlite", on: environment)
            for row in 0...number { try database.run(insert(row)) }
        }
        for (number, environment) in environments.enumerated() {
            let database = try Database("/data/a.sqlite", on: environment)
            #expect(try database.text("SELECT count(*) FROM t") == "\(number + 1)")
        }
    }

    // MARK: Small files

    /// A power cut at any operation leaves the old or the new content.
    @Test func replaceIsAtomic() throws {
        for operations in 1...8 {
            for seed in 1...10 as ClosedRange<UInt64> {
                let world = SimulatedWorld(seed: seed)
                let host = world.addHost("10.0.0.1")
                var environment = host.start()
                try environment.disk.replace("/a", with: [1, 1])
                host.disk.cutAfter(operations: operations, isPower: true)
                var isDone = false
                do throws(DiskError) {
                    try environment.disk.replace("/a", with: [2, 2, 2])
                    isDone = true
                } catch {
                    #expect(error.code == .failed)
                }
                host.cutPower()
                environment = host.start()
                let content = try environment.disk.read("/a")
                #expect(content == [2, 2, 2] || !isDone && content == [1, 1], "at \(operations)")
            }
        }
    }

    @Test func directoryIsRenamedAndRemovedWithItsContent() throws {
        let world = SimulatedWorld(seed: 2)
        let host = world.addHost("10.0.0.1")
        var environment = host.start()
        let disk = environment.disk
        try disk.createDirectory("/data/one/two")
        try disk.replace("/data/one/two/a", with: [1, 2, 3])
        try disk.replace("/data/one/b", with: [4])
        try disk.rename("/data/one", to: "/data/other")
        #expect(try disk.list("/data") == ["other"])
        #expect(try disk.list("/data/other") == ["b", "two"])
        #expect(try disk.size("/data") == 4)
        #expect(throws: DiskError.self) { try disk.replace("/data/one/c", with: []) }
        host.cutPower()
        environment = host.start()
        #expect(try environment.disk.read("/data/other/two/a") == [1, 2, 3])
        try environment.disk.remove("/data/other")
        try environment.disk.remove("/data/nothing")
        host.cutPower()
        environment = host.start()
        #expect(try environment.disk.list("/data") == [])
    }
}
