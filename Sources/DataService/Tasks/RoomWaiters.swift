internal import Bytes
internal import Engine
internal import Seams
internal import Vocabulary
internal import Wire

/// The waiting writes of a `RoomQueue` with their callbacks.
///
/// `add` and `endAdmission` may be called from any lane, everything else by the pager on its lane.
final class RoomWaiters: Sendable {
    private struct State {
        var queue = RoomQueue()
        var callbacks: [UInt64: @Sendable (Completion) -> Void] = [:]
        var isStopped = false

        mutating func removeCallbacks(_ ids: [UInt64]) -> [@Sendable (Completion) -> Void] {
            ids.compactMap { callbacks.removeValue(forKey: $0) }
        }
    }

    private let engine: Bucket
    private let time: any TimeSource
    private let state = Guarded(State())

    init(engine: Bucket, time: any TimeSource) {
        self.engine = engine
        self.time = time
    }

    private var bounds: RoomQueue.Bounds {
        let account = engine.account
        return RoomQueue.Bounds(
            ceiling: account.ceiling,
            lowWatermark: account.lowWatermark,
            slack: account.quota / 100,
            waitingMax: account.quota / 4
        )
    }

    /// Adds a write.
    ///
    /// - Returns: False if it has to be refused for now.
    func add(_ bytes: Int, _ done: @escaping @Sendable (Completion) -> Void) -> Bool {
        let (now, bounds) = (time.monotonicNanoseconds(), bounds)
        return state.withLock { state in
            guard !state.isStopped,
                let id = state.queue.add(UInt64(bytes), now: now, bounds)
            else { return false }
            state.callbacks[id] = done
            return true
        }
    }

    /// Ends the last admitted write, stored or not.
    func endAdmission() {
        let now = time.monotonicNanoseconds()
        state.withLock { state in
            state.queue.endAdmission()
            engine.account.reserved = state.queue.reserved(now: now)
        }
    }

    // MARK: On the pager's lane

    /// The bytes in use at which the pager may rest.
    var target: UInt64 {
        let (now, bounds) = (time.monotonicNanoseconds(), bounds)
        return state.withLock { $0.queue.target(now: now, bounds) }
    }

    /// Ends the reservation if no write waits and no admitted one is running.
    ///
    /// - Returns: Whether that is so.
    func releaseIfIdle() -> Bool {
        let now = time.monotonicNanoseconds()
        return state.withLock { state in
            guard state.queue.isEmpty, !state.queue.isAdmitting(now: now) else { return false }
            engine.account.reserved = 0
            return true
        }
    }

    /// Whether the census still has to decide about the first write.
    var needsCensus: Bool {
        state.withLock { $0.queue.waiters.first.map { !$0.isDecided } ?? false }
    }

    /// Admits a write for which there is room, and refuses those whose timeout has passed.
    func serve() {
        let (now, bounds, used) = (time.monotonicNanoseconds(), bounds, engine.account.bytes)
        let (late, admitted) = state.withLock { state in
            let late = state.queue.expire(now: now)
            let admitted = state.queue.admit(used: used, now: now, bounds)
            engine.account.reserved = state.queue.reserved(now: now)
            return (state.removeCallbacks(late), state.removeCallbacks(admitted.map { [$0] } ?? []))
        }
        for done in late { done(.failed(.temporaryFailure, RoomText.full)) }
        for done in admitted { done(.roomMade) }
    }

    /// Notes the end of a pager's pass.
    func recordPass(reachedTarget: Bool) {
        let now = time.monotonicNanoseconds()
        state.withLock { state in
            if reachedTarget {
                state.queue.forgetRemembered()
            } else {
                state.queue.recordShortPass()
            }
            engine.account.reserved = state.queue.reserved(now: now)
        }
    }

    /// Refuses writes that can never fit beside `floor` bytes that always stay.
    func decide(floor: UInt64) {
        let bounds = bounds
        let hopeless = state.withLock { $0.removeCallbacks($0.queue.decide(floor: floor, bounds)) }
        guard !hopeless.isEmpty else { return }
        let reason = RoomText.tooBig(engine, floor: floor)
        for done in hopeless { done(.failed(.tooBig, reason)) }
    }

    /// Refuses all writes for now, if the pager cannot make room.
    func refuseAll() { endAll(.failed(.temporaryFailure, RoomText.full)) { _ in } }

    /// The bucket closes: its writes are retried and find its successor, or no bucket.
    func stop() { endAll(.ready) { $0.isStopped = true } }

    private func endAll(_ completion: Completion, _ change: (inout State) -> Void) {
        let all = state.withLock { state in
            change(&state)
            let all = state.removeCallbacks(state.queue.removeAll())
            engine.account.reserved = 0
            return all
        }
        for done in all { done(completion) }
    }
}

/// The reasons of refusals for clients.
enum RoomText {
    static let full = "The bucket's memory is full. Retry later, or raise its quota."

    /// - Parameters:
    ///   - engine: The bucket.
    ///   - floor: The bytes that cannot be freed.
    /// - Returns: The bound that the document exceeds, and how to raise it.
    static func tooBig(_ engine: Bucket, floor: UInt64) -> String {
        let account = engine.account
        let room = account.ceiling - min(account.ceiling, floor)
        let cure =
            engine.evictionPolicy == .valueOnly
            ? "Raise the quota, or use full eviction." : "Raise the quota."
        return "The document does not fit into bucket \(engine.name): of its memory quota of "
            + "\(account.quota >> 20) MiB, \(room >> 20) MiB can be freed for a document. \(cure)"
    }
}
