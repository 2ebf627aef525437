import Bytes
import Engine
import Testing
import Vocabulary

/// Gives the same commands to a vBucket and to its model.
private final class Duel {
    typealias Answer = ModelVBucket.Answer

    let stage = Stage()
    let bucket: Bucket
    let vBucket: VBucket
    var model: ModelVBucket
    var random: SeededRandom
    var lastCAS: UInt64 = 0
    var persisted: UInt64 = 0
    var drain: VBucketCore.Drain?
    /// How often a command had to wait for a value.
    private(set) var fetches = 0

    /// What commits brought to disk, by seqno.
    private var disk: [UInt64: (key: [UInt8], meta: DocumentMeta, value: [UInt8])] = [:]
    /// How often all of a document had to be fetched, and a tombstone.
    private(set) var wholeFetches = 0
    private(set) var tombstoneFetches = 0

    init(_ type: BucketType, policy: EvictionPolicy? = nil, seed: UInt64) throws {
        bucket = stage.bucket(type, policy: policy)
        vBucket = try #require(bucket[0])
        model = ModelVBucket(now: stage.seconds)
        random = SeededRandom(seed: seed)
    }

    /// Runs `body` under the lock with the key's view and hash.
    func with<Result>(
        _ number: Int,
        _ body: (inout VBucketCore, ByteView, UInt64) -> Result
    ) -> Result {
        let bytes = key(number)
        let hash = stage.hash(of: bytes)
        stage.nanoseconds = (stage.nanoseconds + 777) % 1_000_000_000
        return viewing(bytes) { key in vBucket.withCore { body(&$0, key, hash) } }
    }

    /// After the first difference everything differs: that one is worth reading.
    private(set) var hasFailed = false

    func check(_ isTrue: Bool, _ what: @autoclosure () -> String) {
        guard !isTrue, !hasFailed else { return }
        hasFailed = true
        Issue.record("\(what())")
    }

    /// Runs `body`, and again each time it turned out that something has to be fetched whole.
    func settle<Result>(
        _ number: Int,
        _ body: (inout VBucketCore, ByteView, UInt64) -> Result
    ) -> Result {
        while true {
            let result = with(number, body)
            guard let seqno = wanted(result) else { return result }
            fetchWhole(seqno)
            if hasFailed { return result }
        }
    }

    private func wanted(_ result: Any) -> UInt64? {
        switch result {
        case let outcome as MutationOutcome:
            if case .wouldBlock(.metadata(let seqno)) = outcome { return seqno.value }
        case let (answer, _) as (Answer, CAS):
            if case .wouldFetch(let seqno) = answer { return seqno }
        case let meta as Meta: return meta.wanted
        default: break
        }
        return nil
    }

    private func fetchWhole(_ seqno: UInt64) {
        guard let version = disk[seqno] else {
            return check(false, "seqno \(seqno) is asked for and not on disk")
        }
        wholeFetches += 1
        if version.meta.isDeleted { tombstoneFetches += 1 }
        let withValue = Bool.random(using: &random)
        let isHere = viewing(version.key) { key in
            viewing(version.value) { value in
                vBucket.withCore {
                    $0.restore(
                        version.meta,
                        key: key,
                        valueCount: version.value.count,
                        value: withValue ? value : nil,
                        stage.turn
                    )
                }
            }
        }
        check(isHere, "what was asked for can be restored")
        guard let number = Int(String(decoding: version.key.dropFirst(4), as: UTF8.self)) else {
            return
        }
        check(model.documents[number]?.seqno == seqno, "the newest version is asked for")
        model.documents[number]?.isStub = false
        let isEjected = !withValue && !version.value.isEmpty && !version.meta.isDeleted
        model.documents[number]?.isEjected = isEjected
    }

    // MARK: Translating answers

    /// Checks a new CAS and hands it to the model, which cannot know it.
    func take(_ cas: CAS, for number: Int) {
        check(cas.value > lastCAS, "CASes grow strictly")
        lastCAS = cas.value
        model.documents[number]?.cas = cas.value
    }

    /// Compares, and where the answer made a version, takes its CAS over.
    func expect(_ number: Int, _ outcome: MutationOutcome, _ expected: Answer, _ what: String) {
        let answer: Answer
        switch outcome {
        case .stored(let stored):
            if expected == .unlocked {
                answer = .unlocked
            } else {
                answer = .stored(seqno: stored.seqno.value, number: stored.number)
                take(stored.cas, for: number)
            }
        case .notFound: answer = .notFound
        case .exists: answer = .exists
        case .locked: answer = .locked
        case .notLocked: answer = .notLocked
        case .notStored: answer = .notStored
        case .notANumber: answer = .notANumber
        case .wouldBlock(.value(let seqno)): answer = .wouldBlock(seqno.value)
        default:
            Issue.record("\(what) came to \(outcome)")
            return
        }
        check(answer == expected, "\(what) on \(number): \(answer), not \(expected)")
    }

    func answer(_ outcome: ReadOutcome) -> (Answer, CAS)? {
        switch outcome {
        case .found(let item, let cas):
            let isLocked = cas == .locked
            return (
                .found(value: item.value.bytes, flags: item.flags, isLocked: isLocked), cas
            )
        case .notFound: return (.notFound, .none)
        case .locked: return (.locked, .none)
        case .wouldBlock(.value(let seqno)): return (.wouldBlock(seqno.value), .none)
        case .wouldBlock(.metadata(let seqno)): return (.wouldFetch(seqno.value), .none)
        default:
            Issue.record("a read came to \(outcome)")
            return nil
        }
    }

    // MARK: Commands

    /// No CAS mostly, the right one often, a wrong one sometimes.
    func someCAS(_ number: Int) -> UInt64 {
        switch Int.random(in: 0..<10, using: &random) {
        case 0..<5: 0
        case 5..<9: model.documents[number]?.cas ?? 0
        default: 12_345
        }
    }

    func someExpiry() -> UInt32 {
        switch Int.random(in: 0..<6, using: &random) {
        case 0: model.now + UInt32.random(in: 1...4, using: &random)
        case 1: model.now - 1
        default: 0
        }
    }

    func someValue() -> [UInt8] {
        let digits = ["7", "99999999999999999999", "18446744073709551615", "0", "x", "12a", ""]
        if Bool.random(using: &random) {
            return Array(digits[Int.random(in: 0..<digits.count, using: &random)].utf8)
        }
        let count = Int.random(in: 0..<300, using: &random)
        return [UInt8](repeating: UInt8.random(in: 0...255, using: &random), count: count)
    }

    func store(_ number: Int) {
        let (value, cas, expiry) = (someValue(), someCAS(number), someExpiry())
        let flags: UInt32 = Bool.random(using: &random) ? 0 : 0x0200_0006
        let datatype = UInt8.random(in: 0...1, using: &random)
        let preserves = Int.random(in: 0..<5, using: &random) == 0
        let mode = ModelVBucket.Mode.allCases[Int.random(in: 0..<3, using: &random)]
        let modes: [ModelVBucket.Mode: StoreRequest.Mode] = [
            .set: .set, .add: .add, .replace: .replace,
        ]
        let outcome = settle(number) { core, key, hash in
            viewing(value) { value in
                let request = StoreRequest(
                    key: key,
                    hash: hash,
                    value: value,
                    flags: flags,
                    expiry: expiry,
                    datatype: Datatype(rawValue: datatype),
                    cas: CAS(cas),
                    mode: modes[mode] ?? .set,
                    preservesExpiry: preserves
                )
                return core.store(request, stage.turn)
            }
        }
        let expected = model.store(
            number,
            value,
            mode: mode,
            flags: flags,
            expiry: expiry,
            datatype: datatype,
            cas: cas,
            preservesExpiry: preserves
        )
        expect(number, outcome, expected, "\(mode)")
    }

    func delete(_ number: Int) {
        let cas = someCAS(number)
        let outcome = settle(number) { $0.delete($1, hash: $2, cas: CAS(cas), stage.turn) }
        expect(number, outcome, model.delete(number, cas: cas), "delete")
    }

    func extend(_ number: Int) {
        let (bytes, cas, atFront) = (someValue(), someCAS(number), Bool.random(using: &random))
        fetching(number) {
            let outcome = settle(number) { core, key, hash in
                viewing(bytes) {
                    core.extend(
                        key,
                        hash: hash,
                        with: $0,
                        atFront: atFront,
                        cas: CAS(cas),
                        isJSON: { _ in false },
                        stage.turn
                    )
                }
            }
            let expected = model.extend(number, bytes, atFront: atFront, cas: cas)
            expect(number, outcome, expected, "extend")
            return expected
        }
    }

    func arithmetic(_ number: Int) {
        let (cas, expiry) = (someCAS(number), someExpiry())
        let isIncrement = Bool.random(using: &random)
        let delta = Bool.random(using: &random) ? UInt64.max : 3
        let initial: UInt64? = Bool.random(using: &random) ? 5 : nil
        fetching(number) {
            let outcome = settle(number) { core, key, hash in
                let request = ArithmeticRequest(
                    key: key,
                    hash: hash,
                    isIncrement: isIncrement,
                    delta: delta,
                    initial: initial,
                    expiry: expiry,
                    cas: CAS(cas)
                )
                return core.arithmetic(request, stage.turn)
            }
            let expected = model.arithmetic(
                number,
                isIncrement: isIncrement,
                delta: delta,
                initial: initial,
                expiry: expiry,
                cas: cas
            )
            expect(number, outcome, expected, "arithmetic")
            return expected
        }
    }

    func touch(_ number: Int) {
        let expiry = someExpiry()
        fetching(number) {
            let before = model.highSeqno
            let found = settle(number) {
                answer($0.touch($1, hash: $2, expiry: expiry, stage.turn).outcome)
            }
            let expected = model.touch(number, expiry: expiry)
            check(found?.0 == expected, "touch: \(String(describing: found)), not \(expected)")
            if model.highSeqno > before, let cas = found?.1 { take(cas, for: number) }
            return expected
        }
    }

    func getAndLock(_ number: Int) {
        let seconds = UInt32.random(in: 1...3, using: &random)
        fetching(number) {
            let found = settle(number) {
                answer($0.getAndLock($1, hash: $2, seconds: seconds, stage.turn))
            }
            let expected = model.getAndLock(number, seconds: seconds)
            check(found?.0 == expected, "getl: \(String(describing: found)), not \(expected)")
            if case .found = expected, let cas = found?.1 { take(cas, for: number) }
            return expected
        }
    }

    func unlock(_ number: Int) {
        let cas = someCAS(number)
        let outcome = settle(number) { $0.unlock($1, hash: $2, cas: CAS(cas), stage.turn) }
        expect(number, outcome, model.unlock(number, cas: cas), "unlock")
    }

    /// A tombstone that a read made has a CAS that only its metadata tells.
    private func takeTombstone(_ number: Int, since before: UInt64) {
        guard model.highSeqno > before else { return }
        with(number) { core, key, hash in
            guard case .found(_, let cas) = core.getMeta(key, hash: hash, stage.turn) else {
                Issue.record("an expired document leaves a tombstone")
                return
            }
            take(cas, for: number)
        }
    }

    func get(_ number: Int) {
        fetching(number) {
            let before = model.highSeqno
            let (isGone, fetched) = (model.documents[number]?.isDeleted ?? true, wholeFetches)
            defer { check(!isGone || wholeFetches == fetched, "a tombstone is not read") }
            let found = settle(number) { answer($0.get($1, hash: $2, stage.turn)) }
            let expected = model.get(number)
            check(found?.0 == expected, "get: \(String(describing: found)), not \(expected)")
            takeTombstone(number, since: before)
            if case .found(_, _, let isLocked) = expected, !isLocked {
                check(found?.1.value == model.documents[number]?.cas, "get tells the CAS")
            }
            return expected
        }
    }

    private struct Meta {
        var meta: DocumentMeta?
        var wanted: UInt64?
    }

    func getMeta(_ number: Int) {
        let before = model.highSeqno
        let found: Meta = settle(number) { core, key, hash in
            switch core.getMeta(key, hash: hash, stage.turn) {
            case .found(let item, let cas):
                var meta = item.meta
                if cas == .locked { meta.cas = .locked }
                return Meta(meta: meta)
            case .wouldBlock(.metadata(let seqno)): return Meta(wanted: seqno.value)
            default: return Meta()
            }
        }
        let meta = found.meta
        let expected = model.getMeta(number)
        takeTombstone(number, since: before)
        guard case .metadata = expected, let document = model.documents[number], let meta else {
            check(meta == nil && expected == .notFound, "getMeta: there is something or nothing")
            return
        }
        let expectedMeta = DocumentMeta(
            seqno: Seqno(document.seqno),
            cas: model.isLocked(document) ? .locked : CAS(document.cas),
            revision: document.revision,
            flags: document.flags,
            expiry: document.expiry,
            datatype: Datatype(rawValue: document.datatype),
            isDeleted: document.isDeleted,
            isExpired: document.isExpired
        )
        check(meta == expectedMeta, "getMeta: \(meta), not \(expectedMeta)")
    }

    // MARK: Disk and memory

    /// Runs a command again after the value it waits for has come.
    func fetching(_ number: Int, _ command: () -> Answer) {
        guard case .wouldBlock = command(), let document = model.documents[number] else { return }
        fetches += 1
        // A fetch that comes too late, for another version, changes nothing.
        let installed = with(number) { core, key, hash in
            viewing(document.value) { value in
                let stale = Seqno(document.seqno + 1)
                let tooLate = core.install(value, of: stale, key: key, hash: hash, stage.turn)
                check(!tooLate, "only the very version gets its value back")
                let seqno = Seqno(document.seqno)
                return core.install(value, of: seqno, key: key, hash: hash, stage.turn)
            }
        }
        check(installed, "a value that was waited for is installed")
        model.documents[number]?.isEjected = false
        if case .wouldBlock = command() { Issue.record("a value that is here is waited for") }
    }

    func eject(_ number: Int) {
        let freed = with(number) { $0.eject($1, hash: $2, stage.turn) }
        guard let document = model.documents[number] else {
            check(freed == 0, "what is not there cannot be ejected")
            return
        }
        let isAllowed =
            !document.isDeleted && !document.isEjected && document.seqno <= persisted
            && document.lockedUntil == nil && !document.value.isEmpty
        check(isAllowed || freed == 0, "what is not on disk stays in memory")
        check(!isAllowed || document.value.count < 8 || freed > 0, "what may go, goes")
        if freed > 0 { model.documents[number]?.isEjected = true }
    }

    private var drained: [(UInt64, (key: [UInt8], meta: DocumentMeta, value: [UInt8]))] = []

    func commit() {
        guard bucket.isPersistent else { return }
        if let drain {
            self.drain = nil
            if Int.random(in: 0..<4, using: &random) == 0 {
                vBucket.withCore { $0.undrain(drain) }
            } else {
                for (seqno, version) in drained { disk[seqno] = version }
                vBucket.withCore { $0.persisted(through: drain.boundary) }
                persisted = drain.boundary.value
            }
        } else {
            let drain = vBucket.withCore { $0.drain() }
            self.drain = drain
            drained = drain.entries.map {
                let item = $0.item
                return (item.seqno.value, (item.key.bytes, item.meta, item.value.bytes))
            }
        }
    }

    /// As under great pressure: all that may go, goes.
    func evictAll() {
        var next: UInt64? = 0
        while let place = next {
            let slice = vBucket.withCore {
                $0.ejectSlice(from: place, groupsMax: 2, threshold: .max, stage.turn)
            }
            next = slice.next
        }
        for (number, document) in model.documents
        where document.seqno <= persisted && document.lockedUntil == nil {
            if document.hasLockCAS {
                // The disk does not know its CAS, so only its value goes, where that frees anything.
                model.documents[number]?.isEjected = document.isEjected || shrinks(number, document)
                continue
            }
            model.documents[number]?.isStub = true
            model.documents[number]?.isEjected = false
        }
    }

    private func shrinks(_ number: Int, _ document: ModelVBucket.Document) -> Bool {
        let meta = DocumentMeta(
            revision: document.revision,
            flags: document.flags,
            expiry: document.expiry
        )
        let (keyCount, valueCount) = (key(number).count, document.value.count)
        let whole = Item.bytes(for: meta, keyCount: keyCount, valueCount: valueCount)
        let rest = Item.bytes(for: meta, keyCount: keyCount, valueCount: 0)
        return SizeClass.footprint(of: rest) < SizeClass.footprint(of: whole)
    }

    func step(keys: Int) {
        let number = Int.random(in: 0..<keys, using: &random)
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<25: store(number)
        case 25..<33: delete(number)
        case 33..<41: extend(number)
        case 41..<50: arithmetic(number)
        case 50..<56: touch(number)
        case 56..<61: getAndLock(number)
        case 61..<65: unlock(number)
        case 65..<80: get(number)
        case 80..<86: getMeta(number)
        case 86..<93:
            if bucket.evictionPolicy == .fullEviction { evictAll() } else { eject(number) }
        case 93..<97: commit()
        default:
            stage.seconds += UInt32.random(in: 0...2, using: &random)
            model.now = stage.seconds
        }
    }

    func expectSameState() {
        let counts = vBucket.withCore {
            [$0.liveCount, $0.tombstoneCount, $0.ejectedCount, $0.table.count, $0.table.stubCount]
        }
        let expected = [
            model.liveCount, model.tombstoneCount, model.ejectedCount, model.documents.count,
            model.stubCount,
        ]
        check(counts == expected, "counts: \(counts), not \(expected)")
        let (high, recount) = vBucket.withCore { ($0.highSeqno.value, $0.recount()) }
        check(high == model.highSeqno, "seqnos have no gaps")
        check(bucket.account.bytes == UInt64(recount), "every byte is accounted for")
    }
}

@Suite struct VBucketTests {
    @Test(arguments: 1...60)
    func aPersistentVBucketDoesWhatTheContractSays(seed: UInt64) throws {
        let duel = try Duel(.persistent, seed: seed)
        for step in 0..<3_000 where !duel.hasFailed {
            duel.step(keys: seed % 2 == 0 ? 8 : 60)
            if step % 20 == 0 { duel.expectSameState() }
        }
        duel.expectSameState()
        #expect(duel.fetches > 0 || duel.hasFailed)
    }

    @Test(arguments: 101...120)
    func anEphemeralVBucketDoesWhatTheContractSays(seed: UInt64) throws {
        let duel = try Duel(.ephemeral, seed: seed)
        for step in 0..<3_000 where !duel.hasFailed {
            duel.step(keys: 20)
            if step % 20 == 0 { duel.expectSameState() }
        }
        #expect(duel.model.ejectedCount == 0)
    }

    /// Nearly nothing resident, and still every CAS, revision and count as in the model.
    @Test(arguments: 201...260)
    func fullEvictionIsAsExactAsMemory(seed: UInt64) throws {
        let duel = try Duel(.persistent, policy: .fullEviction, seed: seed)
        for step in 0..<3_000 where !duel.hasFailed {
            duel.step(keys: seed % 2 == 0 ? 12 : 200)
            if step % 20 == 0 { duel.expectSameState() }
        }
        duel.expectSameState()
        #expect(duel.wholeFetches > 20 || duel.hasFailed)
        #expect(duel.tombstoneFetches > 0 || duel.hasFailed)
    }
}
