internal import Bytes
package import Revisions
package import Seams
internal import SyncWire
package import Syncing

/// A database in memory, on one lane: what Sync Gateway's `walrus:` is.
///
/// Nothing of it is on disk, and it ends with the process.
///
/// - Memory is counted in bytes of what is stored, with an estimate of what surrounds it. Beyond the quota
///   writes are refused; deletions are not.
/// - Sequences are drawn without gaps.
package final class MemoryStore: @unchecked Sendable {  // tidy:allow belongs to its lane
    /// Bytes around a document: entries of tables, rows of logs.
    static let documentOverhead = 250
    static let entryOverhead = 100
    /// How long bodies of replaced revisions and contents without a document are kept, as in Sync Gateway.
    static let keptSeconds: UInt64 = 300

    struct Side {
        var document: SideDocument
        var expires: UInt64
    }

    struct Blob {
        let bytes: [UInt8]
        /// The documents that name it.
        var owners = 0
    }

    /// Why something is removed at a time.
    enum Removal {
        case body(RevisionName)
        case blob(String)
    }

    /// The contents of the store, by name.
    struct Tables {
        var records: [[UInt8]: [UInt8]] = [:]
        /// The second since 1970 at which a document expires.
        var expiries: [[UInt8]: UInt64] = [:]
        var kept: [RevisionName: [UInt8]] = [:]
        var blobs: [String: Blob] = [:]
        var sides: [String: Side] = [:]
        /// In order of time, which is in seconds since 1970.
        var removals: [(at: UInt64, what: Removal)] = []
    }

    /// The numbers that were given last.
    private struct Numbers {
        var sequences = SequenceCounter()
        var versions: UInt64 = 0
    }

    let time: any TimeSource
    let quota: StoreQuota
    private(set) var rules: WriteRules
    private(set) var function: SyncFunction
    package private(set) var usedBytes = 0

    var tables = Tables()
    var log = ChannelLog()
    var grants = GrantIndex()
    let locks = DocumentLocks()
    private var numbers = Numbers()
    private let listeners: MemoryListeners
    private var isClosed = false

    /// - Parameters:
    ///   - function: The sync function.
    ///   - rules: Of the database's configuration.
    ///   - quota: Of all stores of the process.
    ///   - environment: Its time.
    ///   - lane: Where all calls come from.
    package init(
        _ function: SyncFunction,
        _ rules: WriteRules,
        quota: StoreQuota,
        environment: Environment,
        on lane: any Lane
    ) {
        self.function = function
        self.rules = rules
        self.quota = quota
        listeners = MemoryListeners(on: lane)
        time = environment.time
    }

    var nowSeconds: UInt64 { time.wallNanoseconds() / 1_000_000_000 }

    /// Documents, tombstones among them.
    package var documentCount: Int { tables.records.count }

    /// Replaces what decides about writes; those under way end as they began.
    package func reconfigure(_ function: SyncFunction, _ rules: WriteRules) {
        precondition(rules.dialect == self.rules.dialect, "a database has one dialect for its life")
        self.function.close()
        self.function = function
        self.rules = rules
    }

    /// Returns the store's memory to the quota, because the database is deleted.
    package func close() {
        function.close()
        quota.count(-usedBytes)
        isClosed = true
    }

    // MARK: Memory

    func count(_ bytes: Int) {
        usedBytes += bytes
        // Requests that began before still end.
        if !isClosed { quota.count(bytes) }
    }

    /// The refusal of a write that needs room; nil if there is some.
    var fullRefusal: Refusal? {
        guard quota.isExceeded else { return nil }
        return Refusal(
            507,
            "The databases use the memory quota of \(quota.bytesMax >> 20) MiB. Delete and purge"
                + " documents, or start the gateway with a larger --memory-quota."
        )
    }

    /// Removes what is due: call it now and then.
    package func removeExpired() {
        let now = nowSeconds
        let due = tables.removals.prefix { $0.at <= now }
        tables.removals.removeFirst(due.count)
        for removal in due {
            switch removal.what {
            case .body(let name): removeReplaced(name)
            case .blob(let digest):
                guard let blob = tables.blobs[digest], blob.owners == 0 else { continue }
                tables.blobs[digest] = nil
                count(-blob.bytes.count - MemoryStore.entryOverhead)
            }
        }
        for (key, side) in tables.sides where side.expires != 0 && side.expires <= now {
            removeSide(key)
        }
        // A document that is being written is removed the next time, unless the write changes its expiry.
        for (id, expires) in tables.expiries where expires <= now && !locks.isLocked(id) {
            remove(id)
        }
    }

    /// Removes the bodies of replaced revisions, which else stay for some minutes.
    ///
    /// - Returns: How many there were.
    package func compact() -> Int {
        let before = tables.kept.count
        for removal in tables.removals {
            if case .body(let name) = removal.what { removeReplaced(name) }
        }
        return before - tables.kept.count
    }

    private func removeReplaced(_ name: RevisionName) {
        // The document was purged meanwhile, and has the revision again as a large losing leaf.
        let place = document(name.document)?.metadata.bodyLocation(of: name.revision)
        if place == .separate { return }
        guard let bytes = tables.kept.removeValue(forKey: name) else { return }
        count(-bytes.count - MemoryStore.entryOverhead)
    }

    func removeLater(_ what: Removal) {
        tables.removals.append((nowSeconds + MemoryStore.keptSeconds, what))
    }

    // MARK: Sequences and listeners

    /// The next sequence.
    ///
    /// Nothing survives the process, so reserving needs no disk.
    func drawSequence() -> UInt64 {
        while true {
            switch numbers.sequences.draw() {
            case .sequence(let sequence): return sequence
            case .needsReservation:
                numbers.sequences.reserved(through: numbers.sequences.reservation)
            case .exhausted: preconditionFailure("a database in memory has 2^53 writes at most")
            }
        }
    }

    func nextVersion() -> UInt64 {
        numbers.versions += 1
        return numbers.versions
    }

    /// Wakes the listeners of topics, behind the work that is posted now.
    ///
    /// Must be called after each change of the log.
    func notify(_ topics: [Subscriptions.Topic]) { listeners.notify(topics) }

    /// Must be called when channels or roles of a principal change without a notification.
    func recordAccess(of principal: PrincipalKey) {
        listeners.accessVersions.recordChange(of: principal)
    }
}

extension MemoryStore: ChannelReads {
    package var newest: UInt64 { log.newest }

    package var accessVersions: AccessVersions { listeners.accessVersions }

    package func page(
        _ request: FeedRequest,
        of scope: FeedScope,
        documents: [[UInt8]]?
    ) async -> FeedPage {
        if documents != nil { return log.page(request, of: scope, documents: documents) }
        return listeners.page(request, of: scope) { log.page(request, of: scope, documents: nil) }
    }

    package func ids(from first: [UInt8], atMost count: Int) async -> [[UInt8]] {
        log.ids.ids(from: first, atMost: count)
    }

    package func ids(below bound: [UInt8]?, atMost count: Int) async -> [[UInt8]] {
        log.ids.ids(below: bound, atMost: count)
    }

    package func grants(to key: PrincipalKey) async -> GrantIndex { grants }

    package func listen(
        to topics: Set<Subscriptions.Topic>,
        _ wake: @escaping @Sendable () -> Void
    ) -> any ChangeListener {
        listeners.add(topics, wake)
    }
}

/// Locks of documents, each with a queue: a write reads its document, runs the sync function, and writes.
final class DocumentLocks: @unchecked Sendable {  // tidy:allow belongs to its lane
    /// The callers that wait, by locked document.
    private var waiting: [[UInt8]: [UnsafeContinuation<Void, Never>]] = [:]

    /// Locks documents, in the order of their ids, so that two callers never wait for each other.
    func lock(_ ids: Set<[UInt8]>) async {
        if ids.count == 1, let id = ids.first { return await lock(id) }
        for id in ids.sorted(by: { $0.lexicographicallyPrecedes($1) }) { await lock(id) }
    }

    func isLocked(_ id: [UInt8]) -> Bool { waiting[id] != nil }

    func unlock(_ ids: Set<[UInt8]>) {
        for id in ids {
            guard var queue = waiting[id] else {
                preconditionFailure("a document is unlocked twice")
            }
            guard !queue.isEmpty else {
                waiting[id] = nil
                continue
            }
            let next = queue.removeFirst()
            waiting[id] = queue
            next.resume()
        }
    }

    private func lock(_ id: [UInt8]) async {
        guard waiting[id] != nil else {
            waiting[id] = []
            return
        }
        await withUnsafeContinuation { waiting[id]?.append($0) }
    }
}

/// The memory that all databases of a process may have together, and what they have.
package final class StoreQuota: @unchecked Sendable {  // tidy:allow belongs to its lane
    package let bytesMax: Int
    package private(set) var usedBytes = 0

    package init(bytesMax: Int) { self.bytesMax = bytesMax }

    var isExceeded: Bool { usedBytes > bytesMax }

    func count(_ bytes: Int) { usedBytes += bytes }
}
