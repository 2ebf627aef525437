internal import Bytes
internal import Synchronization

/// The memory of one node's client connections: bounds what they receive, what they have
/// not read, and the requests that wait.
///
/// `ReceiveMemory` decides; this shares it among reactors. A connection that stays within its own
/// bytes only reads one word here, which changes when memory becomes short.
package final class ConnectionMemory: Sendable {
    /// The present numbers, for statistics.
    package struct Usage: Sendable {
        package let receiveBytesMax: Int
        package let receivedBytes: Int
        /// Connections that are not read until memory is free.
        package let waitingCount: Int
        package let replyBytesMax: Int
        package let replyBytes: Int
        package let parkedBytesMax: Int
        package let parkedBytes: Int
    }

    private struct State {
        var receive: ReceiveMemory
        var granted: [ReceiveMemory.Holder: @Sendable () -> Void] = [:]
    }

    private let state: Guarded<State>
    private let readAhead = Atomic<Bool>(true)
    private let holders = Atomic<UInt64>(0)
    private let replyBytesMax: Int
    private let replyBytes = Atomic<Int>(0)
    private let parkedBytesMax: Int
    private let parkedBytes = Atomic<Int>(0)

    /// Unused memory.
    ///
    /// - Parameters:
    ///   - receive: For bytes that were received and are not handled.
    ///   - keptBytesMax: For replies that clients have not read, and as much for requests that wait.
    package init(receive: ReceiveMemory, keptBytesMax: Int) {
        state = Guarded(State(receive: receive))
        replyBytesMax = keptBytesMax
        parkedBytesMax = keptBytesMax
    }

    package var usage: Usage {
        state.withLock { state in
            Usage(
                receiveBytesMax: state.receive.bytesMax,
                receivedBytes: state.receive.heldBytes,
                waitingCount: state.receive.waitingCount,
                replyBytesMax: replyBytesMax,
                replyBytes: replyBytes.load(ordering: .relaxed),
                parkedBytesMax: parkedBytesMax,
                parkedBytes: parkedBytes.load(ordering: .relaxed)
            )
        }
    }

    // MARK: Receiving

    /// Whether a connection may read bytes before it knows whether it has to hold them.
    package var allowsReadAhead: Bool { readAhead.load(ordering: .relaxed) }

    /// A holder that no other connection has.
    func makeHolder() -> ReceiveMemory.Holder {
        ReceiveMemory.Holder(holders.add(1, ordering: .relaxed).newValue)
    }

    func share(of holder: ReceiveMemory.Holder) -> (bytes: Int, isWaiting: Bool) {
        state.withLock { ($0.receive.share(of: holder), $0.receive.isWaiting(holder)) }
    }

    /// As `ReceiveMemory.tryClaim`.
    func tryClaim(_ bytes: Int, for holder: ReceiveMemory.Holder) -> Bool {
        state.withLock { state in
            defer { publishReadAhead(state) }
            return state.receive.tryClaim(bytes, for: holder)
        }
    }

    /// As `ReceiveMemory.claim`; `granted` is called once, on any thread, if the claim waited.
    func claim(
        _ bytes: Int,
        for holder: ReceiveMemory.Holder,
        granted: @escaping @Sendable () -> Void
    ) -> Bool {
        state.withLock { state in
            defer { publishReadAhead(state) }
            if state.receive.claim(bytes, for: holder) { return true }
            state.granted[holder] = granted
            return false
        }
    }

    /// As `ReceiveMemory.hold`; resumes the connections whose claims are granted.
    func hold(_ bytes: Int, by holder: ReceiveMemory.Holder) {
        let resuming = state.withLock { state in
            defer { publishReadAhead(state) }
            state.granted[holder] = nil
            return state.receive.hold(bytes, by: holder)
                .compactMap { state.granted.removeValue(forKey: $0) }
        }
        for resume in resuming { resume() }
    }

    private func publishReadAhead(_ state: State) {
        let allows = state.receive.allowsReadAhead
        guard allows != allowsReadAhead else { return }
        readAhead.store(allows, ordering: .relaxed)
    }

    // MARK: Replies

    /// Whether unread replies fill their memory.
    ///
    /// Large documents are then not read for clients until memory is free.
    package var isFullOfReplies: Bool { replyBytes.load(ordering: .relaxed) >= replyBytesMax }

    /// Counts bytes of unread replies; negative for sent bytes.
    package func countReplies(_ bytes: Int) { replyBytes.add(bytes, ordering: .relaxed) }

    // MARK: Parked requests

    /// Whether parked requests, which later requests may overtake, fill their memory.
    ///
    /// Further ones then wait in order, as received bytes.
    package var isFullOfParked: Bool { parkedBytes.load(ordering: .relaxed) >= parkedBytesMax }

    /// Counts bytes of parked requests; negative for answered ones.
    package func countParked(_ bytes: Int) { parkedBytes.add(bytes, ordering: .relaxed) }
}
