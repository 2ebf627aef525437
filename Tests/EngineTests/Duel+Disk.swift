import Bytes
import Engine
import Testing
import Vocabulary

/// Commits, fetches and evictions, and one random step.
extension Duel {
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

    func shrinks(_ number: Int, _ document: ModelVBucket.Document) -> Bool {
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
