import Bytes
import Engine
import Testing
import Vocabulary

/// Documents that expire while their attributes are on disk only: the tombstone keeps the system
/// attributes, so a scan of the disk brings the value.
@Suite struct AttributeExpiryTests {
    private static let system = Burial.stored([("_sync", #"{"rev":"1-a"}"#)])
    private static let user = Burial.stored([("user", "1")], body: "{}")
    private static let whole = Burial.stored(
        [("user", "1"), ("_sync", #"{"rev":"1-a"}"#)],
        body: String(repeating: "1", count: 300)
    )

    /// An active copy with a document (seqno 1) that expires in ten seconds.
    private func document(_ value: [UInt8], _ policy: EvictionPolicy) throws -> Burial {
        let burial = try Burial(policy)
        burial.apply(1, value, isDeleted: false, expiry: burial.stage.seconds + 10)
        burial.persistAll()
        burial.vBucket.withCore { $0.promote(VBucketUUID(9)) }
        return burial
    }

    private func expireSlice(_ burial: Burial) -> Int {
        let turn = burial.stage.turn
        return burial.vBucket.withCore {
            $0.expireSlice(from: 0, groupsMax: .max / 2, turn).count
        }
    }

    private func begin(_ burial: Burial) -> StubScan? {
        let turn = burial.stage.turn
        return burial.vBucket.withCore { $0.beginStubScan(turn) }
    }

    /// Passes what the disk has at seqno 1 to the copy.
    private func expireStub(_ burial: Burial, withValue: Bool) -> StubExpiration {
        guard let version = burial.disk[1] else { return .kept }
        let turn = burial.stage.turn
        return viewing(version.value) { value in
            burial.with(1) { core, key, _ in
                core.expireStub(
                    version.meta,
                    key: key,
                    valueCount: value.count,
                    value: withValue ? value : nil,
                    turn
                )
            }
        }
    }

    @Test func documentInMemoryKeepsItsSystemAttributes() throws {
        for (value, kept) in [(Self.whole, Self.system), (Self.user, [])] {
            let burial = try document(value, .valueOnly)
            burial.stage.seconds += 10
            #expect(expireSlice(burial) == 1)
            let expected = Burial.Found(
                isDeleted: true,
                hasAttributes: !kept.isEmpty,
                valueCount: kept.count,
                value: kept
            )
            #expect(burial.find(1) == expected)
            #expect(begin(burial) == nil)
        }
    }

    @Test func documentWithEjectedAttributesWaitsForScan() throws {
        let burial = try document(Self.whole, .valueOnly)
        #expect(burial.eject(1) > 0)
        #expect(expireSlice(burial) == 0)
        #expect(begin(burial) == nil, "its time has not come")
        burial.stage.seconds += 10
        #expect(expireSlice(burial) == 0)
        #expect(burial.counts == .init(live: 1, ejected: 1))
        #expect(begin(burial) != nil)
        #expect(expireStub(burial, withValue: false) == .needsValue)
        #expect(burial.counts == .init(live: 1, ejected: 1))
        #expect(expireStub(burial, withValue: true) == .expired)
        #expect(burial.counts == .init(tombstones: 1))
        #expect(burial.find(1)?.value == Self.system)
        #expect(expireStub(burial, withValue: true) == .kept, "an old version expires nothing")
        #expect(burial.isAccountExact)
    }

    @Test func stubWithAttributesNeedsItsValue() throws {
        let burial = try document(Self.whole, .fullEviction)
        burial.evictAll()
        #expect(burial.counts == .init(live: 1, ejected: 1, stubs: 1))
        burial.stage.seconds += 10
        #expect(begin(burial) != nil)
        #expect(expireStub(burial, withValue: false) == .needsValue)
        #expect(burial.counts.stubs == 1)
        #expect(expireStub(burial, withValue: true) == .expired)
        #expect(burial.counts == .init(tombstones: 1))
        #expect(burial.find(1)?.value == Self.system)
        #expect(burial.isAccountExact)
    }

    @Test func stubWithoutAttributesExpiresWithoutItsValue() throws {
        let burial = try Burial(.fullEviction)
        let turn = burial.stage.turn
        let expiry = turn.seconds + 10
        burial.vBucket.withCore { $0.promote(VBucketUUID(9)) }
        _ = burial.stage.store(burial.vBucket, key(1), [7, 7], expiry: expiry)
        burial.persistAll()
        burial.evictAll()
        burial.stage.seconds += 10
        #expect(begin(burial) != nil)
        #expect(expireStub(burial, withValue: false) == .expired)
        #expect(burial.counts == .init(tombstones: 1))
    }

    /// Another copy decides, or a prepare does.
    @Test func replicaExpiresNothingAndAbandonedScanIsRepeated() throws {
        let burial = try document(Self.whole, .valueOnly)
        #expect(burial.eject(1) > 0)
        burial.stage.seconds += 10
        _ = expireSlice(burial)
        let scan = try #require(begin(burial))
        burial.vBucket.withCore { $0.become(.replica) }
        #expect(!burial.vBucket.withCore { $0.isUnderWay(scan) })
        burial.vBucket.withCore {
            $0.abandon(scan)
            $0.promote(VBucketUUID(10))
        }
        #expect(begin(burial) != nil)
        #expect(expireStub(burial, withValue: true) == .expired)
    }

    @Test func metadataOfExpiredDocumentWaitsForItsValue() throws {
        let burial = try document(Self.whole, .valueOnly)
        #expect(burial.eject(1) > 0)
        burial.stage.seconds += 10
        let turn = burial.stage.turn
        func metadata() -> (wait: UInt64?, isDeleted: Bool) {
            burial.with(1) { core, key, hash in
                switch core.getMeta(key, hash: hash, turn) {
                case .wait(.value(let seqno)): (seqno.value, false)
                case .done(let (item, _)): (nil, item.isDeleted)
                default: (nil, false)
                }
            }
        }
        #expect(metadata() == (1, false))
        let isMissing = burial.with(1) { core, key, hash in
            if case .refused(.notFound) = core.get(key, hash: hash, turn) { true } else { false }
        }
        #expect(isMissing && burial.counts.live == 1)
        #expect(burial.install(1))
        #expect(metadata() == (nil, true))
        #expect(burial.find(1)?.value == Self.system)
    }
}

/// The buffer for attributes is the lane's: what each deletion adds has to be removed.
@Suite struct AttributeScratchTests {
    @Test func deletionLeavesNothingInScratchBuffer() throws {
        let burial = try Burial(.valueOnly)
        for number in 0..<10 {
            burial.apply(number, Burial.stored([("_sync", "1")], body: "{}"), isDeleted: false)
        }
        burial.vBucket.withCore { $0.promote(VBucketUUID(9)) }
        let turn = burial.stage.turn
        let before = burial.stage.scratch.count
        for number in 0..<10 {
            let outcome = burial.with(number) { $0.delete($1, hash: $2, cas: .none, turn) }
            guard case .done = outcome else {
                Issue.record("a deletion came to \(outcome)")
                return
            }
            #expect(burial.find(number)?.value == Burial.stored([("_sync", "1")]))
        }
        #expect(burial.stage.scratch.count == before)
    }
}
