import Bytes
import Engine
import Persistence
import Replication
import Testing
import Vocabulary

/// One entry of a copy's order.
enum Entry {
    case change(Change)
    case prepare(Change)
    case abort(Seqno, key: [UInt8])

    var seqno: Seqno {
        switch self {
        case .change(let change), .prepare(let change): change.meta.seqno
        case .abort(let seqno, _): seqno
        }
    }

    var key: [UInt8] {
        switch self {
        case .change(let change), .prepare(let change): change.key
        case .abort(_, let key): key
        }
    }
}

/// Durable writes of two copies: the active one commits what the replica has acknowledged.
extension Pair {
    func state(at seqno: Seqno) -> [[UInt8]: Change] {
        var state: [[UInt8]: Change] = [:]
        for case .change(let change) in history where change.meta.seqno <= seqno {
            state[change.key] = change
        }
        return state
    }

    func prepares(at seqno: Seqno) -> [[UInt8]: Change] {
        var prepares: [[UInt8]: Change] = [:]
        for entry in history where entry.seqno <= seqno {
            if case .prepare(let change) = entry {
                prepares[change.key] = change
            } else {
                prepares[entry.key] = nil
            }
        }
        return prepares
    }

    /// Everything that the new active copy has, as if it had happened in this order.
    func beginHistory(_ documents: [[UInt8]: Change]) {
        // A copy that is being built is never promoted.
        if !isAligned || !isWhole { answered = [:] }
        isAligned = false
        isWhole = false
        let entries =
            documents.values.map { Entry.change($0) }
            + active.prepares().values.map { Entry.prepare($0) }
        history = entries.sorted { $0.seqno < $1.seqno }
    }

    func writeDurably() throws {
        let key = Array("key-\(Int.random(in: 0..<keys, using: &random))".utf8)
        let level: DurabilityLevel =
            active.type == .persistent && Bool.random(using: &random)
            ? .persistToMajority : .majority
        try note(key, [])
        let deletes = Int.random(in: 0..<5, using: &random) == 0
        let count = Int.random(in: 0..<200, using: &random)
        let value = (0..<count).map { _ in UInt8.random(in: 97...122, using: &random) }
        let isPrepared = active.prepares()[key] != nil
        let outcome =
            try deletes
            ? active.delete(key, level) : active.set(key, value, expiry: 0, flags: 1, level)
        switch outcome {
        case .prepared(let stored):
            #expect(!isPrepared)
            guard let change = active.prepares()[key] else {
                Issue.record("what was prepared is outstanding")
                return
            }
            #expect(change.meta.seqno == stored.seqno && change.meta.cas == stored.cas)
            #expect(change.value == (deletes ? [] : value) && change.meta.isDeleted == deletes)
            history.append(.prepare(change))
        case .refused(.writeInProgress), .refused(.writeRecommitting): #expect(isPrepared)
        case .refused(.notFound): #expect(deletes)
        default: Issue.record("a durable write came to \(outcome)")
        }
    }

    /// Commits what the replica has, or aborts; what was inherited is only committed.
    func complete() throws {
        let outstanding = active.vBucket.withCore { $0.outstandingPrepares }
        guard let prepare = outstanding.randomElement(using: &random) else { return }
        let acknowledged: Seqno = replica.vBucket.withCore { core in
            guard sender != nil, isAligned else { return .zero }
            return prepare.level == .majority ? core.coveredSeqno : core.coveredOnDisk
        }
        let onDisk = active.vBucket.withCore { $0.durableSeqno }
        let isOnActive = prepare.level == .majority || onDisk >= prepare.seqno
        if prepare.isInherited || (acknowledged >= prepare.seqno && isOnActive) {
            try commit(prepare)
        } else if Int.random(in: 0..<3, using: &random) == 0 {
            try abort(prepare.seqno)
        }
    }

    private func commit(_ prepare: OutstandingPrepare) throws {
        let before = active.prepares().values.first { $0.meta.seqno == prepare.seqno }
        guard let before,
            case .done(let stored) = try active.complete(prepare.seqno, commits: true)
        else {
            Issue.record("an outstanding prepare can be committed")
            return
        }
        #expect(stored.cas == before.meta.cas)
        commits += 1
        var change = before
        change.meta.seqno = stored.seqno
        if let meta = try active.meta(before.key) {
            // A revision counts the versions that were made; the rest is as it was prepared.
            change.meta.revision = meta.revision
            #expect(meta == change.meta)
        }
        history.append(.change(change))
        if !prepare.isInherited {
            answered[change.key] = (change, prepare.level)
        } else if answered[change.key]?.change.meta.cas != stored.cas {
            // The one before had given it up, ambiguously: a later write than what was answered.
            answered[change.key] = nil
        }
    }

    private func abort(_ prepare: Seqno) throws {
        let key = active.prepares().values.first { $0.meta.seqno == prepare }?.key
        guard let key, case .done(let stored) = try active.complete(prepare, commits: false)
        else {
            Issue.record("an outstanding prepare can be aborted")
            return
        }
        aborts += 1
        history.append(.abort(stored.seqno, key: key))
    }

    /// A new active copy aborts what it has above the end of the history it had whole.
    func abortUncovered(_ covered: Seqno) throws {
        for prepare in active.vBucket.withCore({ $0.outstandingPrepares }) {
            #expect(prepare.isInherited)
            if prepare.seqno > covered { try abort(prepare.seqno) }
        }
    }

    /// What the replica has covered, and what was not completed there, it has.
    ///
    /// A promotion rests on this. What came of the snapshot that it is in may have completed some.
    func checkPrepares() {
        guard isAligned else { return }
        let (covered, high) = replica.vBucket.withCore { ($0.coveredSeqno, $0.highSeqno) }
        guard covered >= historyStart else { return }
        let here = replica.prepares()
        for (key, prepare) in prepares(at: covered) where here[key] != prepare {
            let isCompleted = history.contains { entry in
                entry.key == key && entry.seqno > prepare.meta.seqno && entry.seqno <= high
            }
            #expect(isCompleted, "a prepare that was acknowledged is here")
        }
    }

    /// No write that was answered is lost: the new active copy has it, or may still commit it.
    func checkAnswered() {
        let (documents, outstanding) = (state(at: Seqno(.max)), active.prepares())
        for (key, answer) in answered {
            let cas = answer.change.meta.cas
            #expect(
                documents[key]?.meta.cas == cas || outstanding[key]?.meta.cas == cas,
                "a durable write is there after a failover"
            )
        }
    }

    /// A copy lost its memory: for what was promised of memory only there is one copy left.
    func forgetWhatMemoryHeld() {
        answered = answered.filter { $0.value.level == .persistToMajority }
    }
}
