/// What a vBucket should do, written down a second time: plain values, no memory tricks.
struct ModelVBucket {
    struct Document: Equatable {
        var seqno: UInt64
        var cas: UInt64
        var revision: UInt64
        var value: [UInt8] = []
        var flags: UInt32 = 0
        var expiry: UInt32 = 0
        var datatype: UInt8 = 0
        var isDeleted = false
        var isExpired = false
        /// Until when it was locked, even when that is over.
        var lockedUntil: UInt32?
        var isEjected = false
        /// Its CAS came with a lock and is not on disk.
        var hasLockCAS = false
        /// Memory has eight bytes of it.
        var isStub = false
    }

    /// What a command came to.
    enum Answer: Equatable {
        case stored(seqno: UInt64, number: UInt64)
        case found(value: [UInt8], flags: UInt32, isLocked: Bool)
        /// A document's or a tombstone's metadata.
        case metadata(Document)
        case notFound, exists, locked, notLocked, notStored, notANumber
        /// The value of this version is to be fetched first.
        case wouldBlock(UInt64)
        /// All of it is; the model never says so, a duel fetches and asks again.
        case wouldFetch(UInt64)
        case unlocked
    }

    var documents: [Int: Document] = [:]
    var highSeqno: UInt64 = 0
    var now: UInt32

    func isLive(_ document: Document) -> Bool {
        !document.isDeleted && (document.expiry == 0 || document.expiry > now)
    }

    func live(_ key: Int) -> Document? { documents[key].flatMap { isLive($0) ? $0 : nil } }

    func isLocked(_ document: Document) -> Bool { document.lockedUntil.map { $0 > now } ?? false }

    var liveCount: Int { documents.values.count { !$0.isDeleted } }
    var tombstoneCount: Int { documents.values.count { $0.isDeleted } }
    var stubCount: Int { documents.values.count { $0.isStub } }
    var ejectedCount: Int {
        documents.values.count { $0.isEjected || ($0.isStub && !$0.isDeleted) }
    }

    /// The CAS is the real one's, taken over afterwards.
    private mutating func put(_ key: Int, number: UInt64 = 0, _ document: Document) -> Answer {
        highSeqno += 1
        var document = document
        document.seqno = highSeqno
        document.revision = (documents[key]?.revision ?? 0) + 1
        documents[key] = document
        return .stored(seqno: highSeqno, number: number)
    }

    private func refusal(_ old: Document?, _ cas: UInt64) -> Answer? {
        guard let old else { return cas == 0 ? nil : .notFound }
        if isLocked(old), cas != old.cas { return .locked }
        return cas == 0 || cas == old.cas ? nil : .exists
    }

    private static func blank() -> Document { Document(seqno: 0, cas: 0, revision: 0) }

    // MARK: Commands

    enum Mode: CaseIterable { case set, add, replace }

    mutating func store(
        _ key: Int,
        _ value: [UInt8],
        mode: Mode,
        flags: UInt32,
        expiry: UInt32,
        datatype: UInt8,
        cas: UInt64,
        preservesExpiry: Bool
    ) -> Answer {
        let old = live(key)
        if mode == .add, old != nil { return .exists }
        if let refusal = refusal(old, cas) { return refusal }
        if mode == .replace, old == nil { return .notFound }
        var document = Self.blank()
        document.value = value
        document.flags = flags
        document.expiry = preservesExpiry && old != nil ? old?.expiry ?? 0 : expiry
        document.datatype = datatype
        return put(key, document)
    }

    mutating func delete(_ key: Int, cas: UInt64) -> Answer {
        guard let old = live(key) else { return .notFound }
        if let refusal = refusal(old, cas) { return refusal }
        var tombstone = Self.blank()
        tombstone.isDeleted = true
        tombstone.expiry = now
        return put(key, tombstone)
    }

    mutating func extend(_ key: Int, _ bytes: [UInt8], atFront: Bool, cas: UInt64) -> Answer {
        guard let old = live(key) else { return cas == 0 ? .notStored : .notFound }
        if let refusal = refusal(old, cas) { return refusal }
        if old.isEjected { return .wouldBlock(old.seqno) }
        var document = Self.blank()
        document.value = atFront ? bytes + old.value : old.value + bytes
        document.flags = old.flags
        document.expiry = old.expiry
        return put(key, document)
    }

    mutating func arithmetic(
        _ key: Int,
        isIncrement: Bool,
        delta: UInt64,
        initial: UInt64?,
        expiry: UInt32,
        cas: UInt64
    ) -> Answer {
        let old = live(key)
        if let refusal = refusal(old, cas) { return refusal }
        var document = Self.blank()
        let number: UInt64
        if let old {
            if old.isEjected { return .wouldBlock(old.seqno) }
            let text = String(decoding: old.value, as: UTF8.self)
            let isNumber =
                (1...20).contains(text.count) && text.allSatisfy { ("0"..."9").contains($0) }
            guard isNumber, let value = UInt64(text) else { return .notANumber }
            number = isIncrement ? value &+ delta : value < delta ? 0 : value - delta
            document.flags = old.flags
            document.expiry = old.expiry
        } else {
            guard let initial else { return .notFound }
            number = initial
            document.expiry = expiry
        }
        document.value = Array(String(number).utf8)
        document.datatype = 1
        return put(key, number: number, document)
    }

    mutating func touch(_ key: Int, expiry: UInt32) -> Answer {
        guard let old = live(key) else { return .notFound }
        if isLocked(old) { return .locked }
        if old.isEjected { return .wouldBlock(old.seqno) }
        let answer = Answer.found(value: old.value, flags: old.flags, isLocked: false)
        guard old.expiry != expiry else { return answer }
        var document = old
        document.expiry = expiry
        document.lockedUntil = nil
        document.hasLockCAS = false
        _ = put(key, document)
        return answer
    }

    mutating func getAndLock(_ key: Int, until end: UInt32) -> Answer {
        guard let old = live(key) else { return .notFound }
        if isLocked(old) { return .locked }
        if old.isEjected { return .wouldBlock(old.seqno) }
        documents[key]?.lockedUntil = end
        documents[key]?.hasLockCAS = true
        return .found(value: old.value, flags: old.flags, isLocked: false)
    }

    mutating func unlock(_ key: Int, cas: UInt64) -> Answer {
        guard let old = live(key) else { return .notFound }
        guard isLocked(old) else { return .notLocked }
        guard old.cas == cas else { return .locked }
        documents[key]?.lockedUntil = nil
        return .unlocked
    }

    mutating func get(_ key: Int) -> Answer {
        guard let old = documents[key], !old.isDeleted else { return .notFound }
        guard isLive(old) else {
            expire(key)
            return .notFound
        }
        if old.isEjected { return .wouldBlock(old.seqno) }
        return .found(value: old.value, flags: old.flags, isLocked: isLocked(old))
    }

    mutating func getMeta(_ key: Int) -> Answer {
        guard let old = documents[key] else { return .notFound }
        if !old.isDeleted, !isLive(old) { expire(key) }
        return documents[key].map { .metadata($0) } ?? .notFound
    }

    mutating func expire(_ key: Int) {
        var tombstone = Self.blank()
        tombstone.isDeleted = true
        tombstone.isExpired = true
        tombstone.expiry = now
        _ = put(key, tombstone)
    }
}
