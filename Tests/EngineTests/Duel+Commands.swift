import Bytes
import Engine
import Testing
import Vocabulary

/// The commands, each given to both.
extension Duel {
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
                answer($0.touch($1, hash: $2, expiry: expiry, stage.turn))
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
            let end = stage.seconds + seconds + (stage.nanoseconds > 0 ? 1 : 0)
            let expected = model.getAndLock(number, until: end)
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
    func takeTombstone(_ number: Int, since before: UInt64) {
        guard model.highSeqno > before else { return }
        with(number) { core, key, hash in
            guard case .done(let (_, cas)) = core.getMeta(key, hash: hash, stage.turn) else {
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

    struct Meta {
        var meta: DocumentMeta?
        var wanted: UInt64?
    }

    func getMeta(_ number: Int) {
        let before = model.highSeqno
        let found: Meta = settle(number) { core, key, hash in
            switch core.getMeta(key, hash: hash, stage.turn) {
            case .done(let (item, cas)):
                var meta = item.meta
                if cas == .locked { meta.cas = .locked }
                return Meta(meta: meta)
            case .wait(.metadata(let seqno)): return Meta(wanted: seqno.value)
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
}
