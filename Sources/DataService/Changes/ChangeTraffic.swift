internal import Bytes
package import Vocabulary
package import Wire

/// Who wants to hear of a bucket's vBuckets, and how far their copies elsewhere are.
///
/// - Listeners are called without a lock, from whichever lane has news; they leave a letter and go.
final class ChangeTraffic: Sendable {
    enum News: Sendable {
        /// Somebody had read everything, and there is more.
        case changed
        case persisted
        /// Another fence, another state, or a seal.
        case ownership
        /// A copy elsewhere told how far it is.
        case acknowledged
    }

    private struct Listener {
        let number: UInt64
        let tell: @Sendable (News) -> Void
    }

    private struct State {
        var listeners: [VBucketID: [Listener]] = [:]
        var lastNumber: UInt64 = 0
        var progress: [VBucketID: [NodeNumber: NodeAcknowledgement]] = [:]
    }

    private let state = Guarded(State())

    /// Has `tell` called with news of a vBucket, until `ignore` with the number that this returns.
    func listen(to vBucket: VBucketID, _ tell: @escaping @Sendable (News) -> Void) -> UInt64 {
        state.withLock { state in
            state.lastNumber += 1
            let listener = Listener(number: state.lastNumber, tell: tell)
            state.listeners[vBucket, default: []].append(listener)
            return listener.number
        }
    }

    func ignore(_ vBucket: VBucketID, _ number: UInt64) {
        state.withLock { state in
            state.listeners[vBucket]?.removeAll { $0.number == number }
            if state.listeners[vBucket]?.isEmpty == true { state.listeners[vBucket] = nil }
        }
    }

    func tell(_ news: News, of vBucket: VBucketID) {
        // Elements, not the array: ThreadSanitizer does not see that a copy of it is its own.
        let tellings = state.withLock { ($0.listeners[vBucket] ?? []).map(\.tell) }
        for tell in tellings { tell(news) }
    }

    func tell(_ news: News, of vBuckets: [VBucketID]) {
        let tellings = state.withLock { state in
            vBuckets.flatMap { (state.listeners[$0] ?? []).map(\.tell) }
        }
        for tell in tellings { tell(news) }
    }

    // MARK: Copies elsewhere

    func note(_ progress: NodeAcknowledgement, of vBucket: VBucketID, on node: NodeNumber) {
        state.withLock { $0.progress[vBucket, default: [:]][node] = progress }
        tell(.acknowledged, of: vBucket)
    }

    /// What a node said counts no more: its connection is gone, and it may have crashed.
    func forget(_ node: NodeNumber, _ vBucket: VBucketID) {
        state.withLock { state in
            state.progress[vBucket]?[node] = nil
            if state.progress[vBucket]?.isEmpty == true { state.progress[vBucket] = nil }
        }
    }

    func progress(of vBucket: VBucketID) -> [NodeNumber: NodeAcknowledgement] {
        state.withLock { ($0.progress[vBucket] ?? [:]).mapValues { $0 } }
    }
}

extension OpenBucket {
    /// How far the others are, by their last word, of a vBucket that is active here.
    package func acknowledgements(of vBucket: VBucketID) -> [NodeNumber: NodeAcknowledgement] {
        traffic.progress(of: vBucket)
    }
}
