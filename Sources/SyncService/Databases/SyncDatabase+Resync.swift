internal import Seams
package import SyncWire

/// Runs of the sync function over all documents, after it was replaced.
extension SyncDatabase {
    /// A resync, as its status is asked for.
    package struct Resync: Hashable, Sendable {
        package enum Status: String, Sendable {
            /// Followed by any other.
            case running
            case stopped
            /// The resync has processed all documents, or no resync has begun.
            case completed
        }

        package internal(set) var status = Status.completed
        /// Empty before the first one.
        package internal(set) var id = ""
        /// Nanoseconds since 1970.
        package internal(set) var startNanoseconds: UInt64 = 0
        package internal(set) var processed = 0
        /// Documents whose channels or grants were others.
        package internal(set) var changed = 0
    }

    private static let resyncing = State.changing("Resyncing")

    /// Starts a resync of a database that is offline; `runResync` must follow.
    ///
    /// - Throws: `Refusal` 503 if the database is not offline, or another resync runs.
    package func beginResync() throws(Refusal) {
        if state == Self.resyncing {
            let text = dialect == .first ? "is already" : "already"
            throw Refusal(503, "Database _resync \(text) in progress")
        }
        guard state == .offline else {
            throw Refusal(
                503,
                dialect == .first
                    ? "Database must be _offline before calling /_resync"
                    : "Database must be _offline before calling _resync, current state: \(stateName)"
            )
        }
        state = Self.resyncing
        resync = Resync()
        resync.status = .running
        resync.id = environment.entropy.hex(16)
        resync.startNanoseconds = environment.time.wallNanoseconds()
    }

    /// Writes documents whose channels or grants differ, until the end or `stopResync`; then the database is
    /// offline again.
    package func runResync() async {
        let id = resync.id
        environment.trace.info("sync", "Running the sync function on all documents of \(name).")
        await forEachPage { [self] ids in
            guard resync.id == id, resync.status == .running, state == Self.resyncing else {
                return false
            }
            let outcomes = await stores.writes.reassign(ids, by: nil)
            guard resync.id == id else { return false }
            resync.processed += outcomes.count { $0 != nil }
            resync.changed += outcomes.count { $0?.isChange == true }
            return true
        }
        guard resync.id == id else { return }
        if resync.status == .running, state == Self.resyncing { resync.status = .completed }
        if state == Self.resyncing { state = .offline }
        let counts = "\(resync.changed) of \(resync.processed) documents changed"
        environment.trace.info("sync", "The resync of \(name) has \(resync.status): \(counts).")
    }

    /// - Throws: `Refusal` 400 if none runs.
    package func stopResync() throws(Refusal) {
        guard state == Self.resyncing else { throw Refusal(400, "Database _resync is not running") }
        resync.status = .stopped
    }

    /// The result of trying a sync function on all documents.
    package struct SyncCheck: Hashable, Sendable {
        /// How many ids of a kind are kept.
        package static let examplesMax = 20

        package struct Found: Hashable, Sendable {
            package private(set) var count = 0
            /// The first ones, with the reason if they are refused.
            package private(set) var examples: [Example] = []

            mutating func add(_ document: [UInt8], _ refusal: Refusal? = nil) {
                count += 1
                guard examples.count < examplesMax else { return }
                let id = String(decoding: document, as: UTF8.self)
                examples.append(Example(id: id, refusal: refusal))
            }
        }

        package struct Example: Hashable, Sendable {
            package let id: String
            package let refusal: Refusal?
        }

        package fileprivate(set) var processed = 0
        /// Documents that would get other channels or grants.
        package fileprivate(set) var changed = Found()
        /// Documents with a leaf that the function refuses.
        package fileprivate(set) var refused = Found()
    }

    /// Runs a sync function on all documents and writes nothing.
    ///
    /// - Parameters:
    ///   - function: The function, which need not be that of the database.
    ///   - isWanted: Asked before each page; false ends the check early.
    /// - Returns: What would differ.
    package func check(
        _ function: SyncFunction,
        while isWanted: @escaping @Sendable () -> Bool
    ) async -> SyncCheck {
        var check = SyncCheck()
        await forEachPage { [self] ids in
            guard isWanted() else { return false }
            for (id, outcome) in zip(ids, await stores.writes.reassign(ids, by: function)) {
                guard let outcome else { continue }
                check.processed += 1
                if outcome.isChange { check.changed.add(id) }
                if let refusal = outcome.refusal { check.refused.add(id, refusal) }
            }
            return true
        }
        return check
    }

    /// Visits the ids of all documents, deleted ones too; other work of the lane runs between two pages.
    ///
    /// - Parameter visit: False ends the walk.
    private func forEachPage(_ visit: ([[UInt8]]) async -> Bool) async {
        var first: [UInt8] = []
        while true {
            let ids = await stores.channels.ids(from: first, atMost: Self.pageMax)
            guard !ids.isEmpty, await visit(ids), let last = ids.last else { return }
            // The next id in the order of bytes.
            first = last + [0]
            await executor.sleep(nanoseconds: 0)
        }
    }
}
