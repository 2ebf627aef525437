import Bytes
import Engine
import Replication
import Testing
import Vocabulary
import Wire

/// Deletions that one copy has forgotten stay deletions for all.
@Suite struct PurgeTests {
    /// Sends `receiver` what `source` has, until `isEnough`, or until there is nothing left.
    private func follow(
        _ receiver: Receiver,
        _ source: Copy,
        until isEnough: () -> Bool = { false }
    ) throws {
        var random = SeededRandom(seed: 1)
        let stream = try #require(try receiver.open(source))
        let sender = Sender(source, stream, window: FlowWindow())
        var idle = 0
        for _ in 0..<10_000 where idle < 5 && !isEnough() {
            let moved = try sender.step(&random)
            let (taken, _) = try receiver.receive(sender.wire.view)
            sender.wire.removeFirst(taken)
            idle = moved || taken > 0 ? 0 : idle + 1
        }
        sender.letGo()
        receiver.stream.disconnected()
    }

    private func key(_ number: Int) -> [UInt8] { Array("key\(number)".utf8) }

    private func write(_ keys: Range<Int>, to copy: Copy) throws {
        let value = [UInt8](repeating: 97, count: 100)
        for number in keys { _ = try copy.set(key(number), value, expiry: 0, flags: 0) }
    }

    private func delete(_ keys: Range<Int>, from copy: Copy) throws {
        for number in keys { _ = try copy.delete(key(number)) }
    }

    private func counts(_ copy: Copy) -> [Int] {
        copy.vBucket.withCore { [$0.liveCount, $0.tombstoneCount] }
    }

    /// How the one that purged is read by the copy that is built from it.
    enum Source: CaseIterable {
        case table
        case disk
        case memoryOnly
    }

    /// A copy built from a copy with purged deletions lacks them as well, so a replica that was
    /// disconnected meanwhile cannot receive them and has to restart from zero.
    @Test(arguments: Source.allCases)
    func copyBuiltWithoutPurgedDeletionsRefusesOlderReaders(_ source: Source) throws {
        let type = source == .memoryOnly ? BucketType.ephemeral : .persistent
        let active = try Copy(type, state: .active, uuid: 1)
        let away = Receiver(try Copy(type, state: .replica, uuid: 2))
        let built = Receiver(try Copy(type, state: .replica, uuid: 3))
        try write(0..<20, to: active)
        try follow(away, active)
        #expect(counts(away.copy) == [20, 0])
        try delete(0..<10, from: active)
        try write(20..<60, to: active)
        try active.forgetTombstones()
        #expect(active.purge.seqno == Seqno(30))
        if source == .disk { active.eject() }
        try follow(built, active)
        #expect(counts(built.copy) == [50, 0])
        #expect(built.copy.purge == active.purge)
        if type == .persistent {
            try built.copy.flush()
            try built.copy.crash()
            #expect(built.copy.purge == active.purge, "it is written down")
        }
        built.copy.vBucket.withCore { $0.promote(VBucketUUID(4)) }
        try follow(away, built.copy)
        #expect(away.resets == 1)
        #expect(counts(away.copy) == [50, 0])
        #expect(away.copy.purge == active.purge)
    }

    /// A snapshot that comes from two copies, with a crash between: what the first one had forgotten
    /// does not come from the second one.
    @Test func copyResumedFromAnotherNodeKeepsItsPurgeSeqno() throws {
        let active = try Copy(.persistent, state: .active, uuid: 1)
        let away = Receiver(try Copy(.persistent, state: .replica, uuid: 2))
        let whole = Receiver(try Copy(.persistent, state: .replica, uuid: 3))
        try write(0..<20, to: active)
        try follow(away, active)
        try delete(0..<10, from: active)
        try write(20..<120, to: active)
        try follow(whole, active)
        try active.forgetTombstones()
        active.eject()
        var built = Receiver(try Copy(.persistent, state: .replica, uuid: 4))
        try follow(built, active) { built.stream.high >= Seqno(35) }
        #expect(built.stream.covered == .zero)
        try built.copy.flush()
        try built.copy.crash()
        #expect(built.copy.purge.seqno == Seqno(30))
        whole.copy.vBucket.withCore { $0.promote(VBucketUUID(5)) }
        #expect(whole.copy.purge.seqno == .zero)
        built = Receiver(built.copy)
        try follow(built, whole.copy)
        #expect(built.resets == 0)
        #expect(counts(built.copy) == [110, 0])
        #expect(built.copy.purge.seqno == Seqno(30))
        built.copy.vBucket.withCore { $0.promote(VBucketUUID(6)) }
        try follow(away, built.copy)
        #expect(away.resets == 1)
        #expect(counts(away.copy) == [110, 0])
    }
}
