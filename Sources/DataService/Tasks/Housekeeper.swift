internal import Bytes
internal import Engine
internal import Seams
internal import Vocabulary

/// Periodic work: tables to free, idle connections and those without a login to close, expired documents
/// and tombstones to remove, heat to save, failed file deletions to retry, commits that fail or hang.
///
/// One timer for all buckets on the nonIO lane, and one on the lane of durable writes, so that a hundred
/// idle buckets cause no more wakeups than one.
final class Housekeeper: Sendable {
    private struct State {
        var isStopped = false
        var round: UInt64 = 0
    }

    private let service: DocumentService
    private let expiry: ExpiryPager
    private let tombstones: TombstonePager
    private let state = Guarded(State())

    private static let roundNanoseconds: UInt64 = 1_000_000_000
    /// The least pause between two checks of commits.
    private static let stallPauseNanoseconds: UInt64 = 10_000_000
    /// Rounds between checks for idle file connections.
    private static let closeIdleRounds: UInt64 = 10
    /// Ten minutes, as in Couchbase: a request for an expired document never returns it anyway.
    private static let expiryRounds: UInt64 = 600
    private static let heatRounds: UInt64 = 600
    /// Often enough for the shortest interval that Couchbase accepts, an hour.
    private static let purgeRounds: UInt64 = 3_600
    private static let deletionRounds: UInt64 = 60

    init(service: DocumentService) {
        self.service = service
        expiry = ExpiryPager(service: service)
        tombstones = TombstonePager(service: service)
    }

    func start() {
        post()
        checkStalls()
    }

    func stop() {
        state.withLock { $0.isStopped = true }
        expiry.stop()
    }

    private func post() {
        service.lanes.nonIO.lane.post(after: Housekeeper.roundNanoseconds) { [weak self] in
            self?.work()
        }
    }

    /// Looks for files whose commits fail or hang, each second and at the moment when one is due.
    ///
    /// On a lane that never waits for a disk.
    private func checkStalls() {
        let now = service.environment.time.monotonicNanoseconds()
        let due = service.buckets.compactMap { $0.disk?.checkStalls() }.min()
        let pause = min(due.map { $0 - min($0, now) } ?? .max, Housekeeper.roundNanoseconds)
        service.lanes.durability.lane.post(after: max(pause, Housekeeper.stallPauseNanoseconds)) {
            [weak self] in
            guard let self, !self.state.withLock({ $0.isStopped }) else { return }
            checkStalls()
        }
    }

    private func work() {
        let round: UInt64? = state.withLock { state in
            state.round += 1
            return state.isStopped ? nil : state.round
        }
        guard let round else { return }
        service.reclaimer.collect()
        let now = service.environment.time.monotonicNanoseconds()
        service.environment.network.strangers.endOverdue(at: now)
        service.slowCommands.logOmitted()
        for bucket in service.buckets {
            if bucket.engine.account.isAboveHighWatermark { bucket.pager.wake() }
            bucket.pager.dropSlowCursors()
            if round % Housekeeper.closeIdleRounds == 0 { bucket.disk?.closeIdle() }
            if round % Housekeeper.expiryRounds == 0 { expiry.walk(bucket) }
            if round % Housekeeper.heatRounds == 0 { bucket.disk?.saveHeat() }
            if round % Housekeeper.purgeRounds == 0 { purge(bucket) }
        }
        if round % Housekeeper.deletionRounds == 0 { service.retryDeletions() }
        post()
    }

    private func purge(_ bucket: OpenBucket) {
        guard let disk = bucket.disk else { return tombstones.walk(bucket) }
        disk.purge(interval: bucket.settings.purgeSeconds)
    }
}
