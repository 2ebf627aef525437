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
        /// The bucket was deleted, or flushed.
        case retired
    }

    private struct Listener {
        let number: UInt64
        let tell: @Sendable (News) -> Void
    }

    /// What a node said last of its copy, on the connection that speaks for it now.
    private struct Word {
        let link: UInt64
        var progress: NodeAcknowledgement?
    }

    private struct State {
        var listeners: [VBucketID: [Listener]] = [:]
        var lastNumber: UInt64 = 0
        var words: [VBucketID: [NodeNumber: Word]] = [:]
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

    /// A node asks for a vBucket's changes: from here on this connection speaks for it.
    ///
    /// What is still under way on the one before was said of a copy that may not be there any more.
    func begin(_ node: NodeNumber, _ vBucket: VBucketID, link: UInt64) {
        state.withLock { $0.words[vBucket, default: [:]][node] = Word(link: link) }
    }

    func note(
        _ progress: NodeAcknowledgement,
        of vBucket: VBucketID,
        on node: NodeNumber,
        link: UInt64
    ) {
        let isHeard = state.withLock { state in
            guard state.words[vBucket]?[node]?.link == link else { return false }
            state.words[vBucket]?[node]?.progress = progress
            return true
        }
        if isHeard { tell(.acknowledged, of: vBucket) }
    }

    /// What a node said counts no more: its connection is gone, and it may have crashed.
    func forget(_ node: NodeNumber, _ vBucket: VBucketID, link: UInt64) {
        state.withLock { state in
            guard state.words[vBucket]?[node]?.link == link else { return }
            state.words[vBucket]?[node] = nil
            if state.words[vBucket]?.isEmpty == true { state.words[vBucket] = nil }
        }
    }

    func progress(of vBucket: VBucketID) -> [NodeNumber: NodeAcknowledgement] {
        state.withLock { ($0.words[vBucket] ?? [:]).compactMapValues(\.progress) }
    }

    func acknowledgements(
        of vBucket: VBucketID
    ) -> [(node: NodeNumber, word: NodeAcknowledgement)] {
        state.withLock { state in
            guard let words = state.words[vBucket] else { return [] }
            return words.compactMap { node, word in word.progress.map { (node, $0) } }
        }
    }
}

extension OpenBucket {
    /// How far the others are, by their last word, of a vBucket that is active here.
    package func acknowledgements(
        of vBucket: VBucketID
    ) -> [(node: NodeNumber, word: NodeAcknowledgement)] {
        traffic.acknowledgements(of: vBucket)
    }
}
