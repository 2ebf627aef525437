import Bytes
import Engine
import Testing
import Vocabulary

/// Tombstones with values: the system attributes of a deleted document leave memory and return.
@Suite struct TombstoneValueTests {
    private static let value = Burial.stored(
        [("_sync", #"{"rev":""# + String(repeating: "7", count: 300) + #""}"#)]
    )

    @Test func tombstonesEjectedValueIsFetchedBack() throws {
        let burial = try Burial(.valueOnly)
        burial.apply(1, Self.value)
        #expect(burial.eject(1) == 0, "nothing leaves memory before it is on disk")
        burial.persistAll()
        #expect(burial.eject(1) > 0)
        #expect(burial.counts == .init(tombstones: 1, ejectedTombstones: 1))
        #expect(burial.find(1)?.value == nil && burial.find(1)?.valueCount == Self.value.count)
        #expect(burial.isAccountExact)
        #expect(burial.install(1))
        #expect(burial.find(1)?.value == Self.value)
        #expect(burial.counts == .init(tombstones: 1))
        #expect(burial.isAccountExact)
    }

    /// Other versions follow: a new document, and a purge.
    @Test func replacedAndPurgedTombstonesAreNotCountedAsEjected() throws {
        let burial = try Burial(.valueOnly)
        for number in 0..<4 { burial.apply(number, Self.value) }
        burial.persistAll()
        for number in 0..<4 { #expect(burial.eject(number) > 0) }
        #expect(burial.counts == .init(tombstones: 4, ejectedTombstones: 4))
        burial.apply(0, Self.value, isDeleted: false)
        burial.apply(1, Self.value)
        burial.with(2) { $0.forgetPurged($1, hash: $2, seqno: Seqno(3)) }
        #expect(burial.counts == .init(live: 1, tombstones: 2, ejectedTombstones: 1))
        burial.evictAll()
        #expect(burial.counts.ejectedTombstones == 0, "the last one is a stub")
        burial.with(3) { $0.forgetPurged($1, hash: $2, seqno: Seqno(4)) }
        #expect(burial.counts == .init(live: 1, tombstones: 1))
        #expect(burial.isAccountExact)
        burial.vBucket.withCore { $0.removeAll() }
        #expect(burial.counts == .init() && burial.isAccountExact)
    }

    @Test(arguments: [EvictionPolicy.valueOnly, .fullEviction])
    func stubOfTombstoneHasTheBitAndItsValueIsRestored(policy: EvictionPolicy) throws {
        let burial = try Burial(policy)
        for number in 0..<100 { burial.apply(number, number % 2 == 0 ? Self.value : []) }
        burial.persistAll()
        burial.evictAll()
        #expect(burial.counts == .init(tombstones: 100, stubs: 100))
        for number in 0..<100 {
            let hasBit = burial.with(number) { $0.mayHaveStubWithAttributes($2) }
            #expect(hasBit == (number % 2 == 0))
        }
        for number in 0..<100 {
            #expect(burial.restore(UInt64(number + 1), withValue: number % 4 < 2))
            let value = number % 2 == 0 ? Self.value : []
            let expected = Burial.Found(
                isDeleted: true,
                hasAttributes: number % 2 == 0,
                valueCount: value.count,
                value: number % 4 == 2 ? nil : value
            )
            #expect(burial.find(number) == expected)
        }
        #expect(burial.counts == .init(tombstones: 100, ejectedTombstones: 25))
        #expect(burial.isAccountExact)
    }

    @Test func stubOfDocumentHasTheBitOnlyWithAttributes() throws {
        let burial = try Burial(.fullEviction)
        burial.apply(1, Self.value, isDeleted: false)
        burial.apply(2, isDeleted: false)
        burial.persistAll()
        burial.evictAll()
        #expect(burial.counts == .init(live: 2, ejected: 2, stubs: 2))
        #expect(burial.with(1) { $0.mayHaveStubWithAttributes($2) })
        #expect(!burial.with(2) { $0.mayHaveStubWithAttributes($2) })
        #expect(burial.restore(1, withValue: false) && burial.restore(2, withValue: true))
        #expect(burial.counts == .init(live: 2, ejected: 1))
        #expect(burial.isAccountExact)
    }

    /// Seqnos outgrow 24 bits, so all stubs are written anew.
    @Test func bitsOfStubsSurviveLargerSeqnosAndGrowth() throws {
        let burial = try Burial(.fullEviction)
        var record = burial.vBucket.withCore { $0.record(through: .zero, casHorizon: 0) }
        record.highSeqno = Seqno(1 << 24 - 500)
        burial.vBucket.withCore {
            $0.beginWarmup(record)
            $0.endWarmup()
        }
        for round in 0..<5 {
            for number in round * 200..<(round + 1) * 200 {
                burial.apply(number, number % 3 == 0 ? [1] : [], isDeleted: number % 2 == 0)
            }
            burial.persistAll()
            burial.evictAll()
        }
        for number in 1_000..<30_000 { burial.apply(number) }
        let wrong = (0..<1_000).count { number in
            burial.with(number) { $0.mayHaveStubWithAttributes($2) } != (number % 3 == 0)
        }
        #expect(wrong == 0)
        for seqno in burial.disk.keys { #expect(burial.restore(seqno, withValue: true)) }
        #expect(burial.counts.stubs == 0 && burial.isAccountExact)
    }

    @Test func loadedTombstoneHasItsValueOnDiskAndDoesNotCountAsEjectedDocument() throws {
        let old = try Burial(.valueOnly)
        old.apply(1, Self.value)
        old.apply(2, Self.value, isDeleted: false)
        old.apply(3)
        old.persistAll()
        let record = old.vBucket.withCore { $0.record(through: $0.highSeqno, casHorizon: 0) }
        let burial = try Burial(.valueOnly)
        burial.disk = old.disk
        burial.vBucket.withCore { $0.beginWarmup(record) }
        let turn = burial.stage.turn
        for version in old.disk.values {
            let dead = burial.with(version.number) { core, key, hash in
                let count = version.value.count
                return core.load(version.meta, key: key, valueCount: count, hash: hash, turn)
            }
            #expect(dead == nil)
        }
        #expect(burial.counts == .init(live: 1, tombstones: 2, ejected: 1, ejectedTombstones: 1))
        burial.vBucket.withCore { $0.endWarmup() }
        #expect(burial.install(2))
        // The table is no source of a stream before it has every value.
        #expect(burial.vBucket.withCore { $0.openChanges(after: .zero) }.isDisk)
        #expect(burial.install(1))
        #expect(burial.find(1)?.value == Self.value)
        #expect(burial.counts == .init(live: 1, tombstones: 2))
        #expect(burial.isAccountExact)
        #expect(!burial.vBucket.withCore { $0.openChanges(after: .zero) }.isDisk)
    }

    @Test func streamFromTheTableHasTheTombstonesValue() throws {
        let burial = try Burial(.valueOnly)
        burial.apply(1, Self.value)
        burial.apply(2)
        burial.persistAll()
        guard case .memory(let cursor) = burial.vBucket.withCore({ $0.openChanges(after: .zero) })
        else {
            Issue.record("all changes are in memory")
            return
        }
        _ = burial.vBucket.withCore { $0.snapshot(cursor) }
        #expect(burial.eject(1) == 0, "a change that a cursor has to read stays")
        var sent: [[UInt8]] = []
        burial.vBucket.withCore { core in
            _ = core.read(cursor, bytesMax: 1 << 20) { sent.append($0.value.bytes) }
        }
        #expect(sent == [Self.value, []])
    }

    @Test func fullReplicaAcceptsDeletionsThatNeedNoMemory() throws {
        let burial = try Burial(.valueOnly, quota: 2 << 20)
        let large = Burial.stored([("_sync", "1")], body: String(repeating: "x", count: 100_000))
        for number in 0..<40 { burial.apply(number, large, isDeleted: false) }
        guard case .temporaryFailure = burial.apply(0, large + large) else {
            Issue.record("a deletion with a larger value was accepted")
            return
        }
        for (number, value) in [(0, []), (1, Self.value), (2, large)] {
            guard case .applied = burial.apply(number, value) else {
                Issue.record("the deletion \(number) was refused")
                return
            }
            #expect(burial.find(number)?.value == value)
        }
        #expect(burial.counts.tombstones == 3)
    }

    @Test func preparedDeletionWithValueIsCommittedWithIt() throws {
        let burial = try Burial(.fullEviction)
        let turn = burial.stage.turn
        viewing(Self.value) { value in
            burial.with(1) { core, key, hash in
                _ = core.beginSnapshot(SnapshotRange(start: .zero, end: Seqno(1)))
                let meta = DocumentMeta(
                    seqno: Seqno(1),
                    cas: CAS(turn.wallNanoseconds),
                    expiry: turn.seconds,
                    datatype: .xattr,
                    isDeleted: true
                )
                _ = core.applyPrepare(
                    meta,
                    level: .majority,
                    key: key,
                    hash: hash,
                    value: value,
                    turn
                )
                core.promote(VBucketUUID(9))
                _ = core.commit(Seqno(1), fence: 0, turn)
            }
        }
        let expected = Burial.Found(
            isDeleted: true,
            hasAttributes: true,
            valueCount: Self.value.count,
            value: Self.value
        )
        #expect(burial.find(1) == expected)
        #expect(burial.counts == .init(tombstones: 1))
    }

    @Test(arguments: 1...20 as ClosedRange<UInt64>, [EvictionPolicy.valueOnly, .fullEviction])
    func randomWalkKeepsCountsValuesAndAccount(seed: UInt64, policy: EvictionPolicy) throws {
        var random = SeededRandom(seed: seed)
        let burial = try Burial(policy)
        var newest: [Int: Burial.Version] = [:]
        for _ in 0..<600 {
            let number = Int.random(in: 0..<30, using: &random)
            switch Int.random(in: 0..<20, using: &random) {
            case 0..<9:
                let count = Int.random(in: 0..<3, using: &random) * 40
                let value = count == 0 ? [] : [UInt8](repeating: UInt8(number), count: count)
                let isDeleted = Bool.random(using: &random)
                switch burial.apply(number, value, isDeleted: isDeleted) {
                case .applied:
                    let meta = burial.with(number) { core, key, hash in
                        core.table.find(key, hash: hash)?.item.meta
                    }
                    newest[number] = meta.map { .init(number: number, meta: $0, value: value) }
                case .wouldBlock(.metadata(let seqno)):
                    let withValue = Bool.random(using: &random)
                    #expect(burial.restore(seqno.value, withValue: withValue))
                default: Issue.record("a change was refused")
                }
            case 9..<11: burial.persistAll()
            case 11: burial.evictAll()
            case 12..<15: _ = burial.eject(number)
            default:
                guard let seqno = newest[number]?.meta.seqno.value else { continue }
                if !burial.restore(seqno, withValue: Bool.random(using: &random)) {
                    _ = burial.install(seqno)
                }
            }
            var expected = Burial.Counts()
            for (number, version) in newest {
                let found = burial.find(number)
                let isDeleted = version.meta.isDeleted
                if isDeleted { expected.tombstones += 1 } else { expected.live += 1 }
                if found == nil { expected.stubs += 1 }
                if let value = found?.value { #expect(value == version.value) }
                guard found == nil || found?.value == nil else { continue }
                if !isDeleted {
                    expected.ejected += 1
                } else if found != nil {
                    expected.ejectedTombstones += 1
                }
            }
            #expect(burial.counts == expected)
            #expect(burial.isAccountExact)
        }
    }
}

extension ChangeSource {
    fileprivate var isDisk: Bool {
        if case .disk = self { true } else { false }
    }
}
