internal import Bytes
package import Vocabulary
package import Wire

/// A bucket's listeners to events of its vBuckets, and the last acknowledgements of their copies on
/// other nodes.
///
/// - Listeners are called without a lock, from the lane on which the event occurred. A listener
///   only enqueues an event for its own lane.
final class ChangeTraffic: Sendable {
    enum News: Sendable {
        /// New changes exist, and a reader had reached the end.
        case changed
        case persisted
        /// The fence or the state changed, or the copy was sealed.
        case ownership
        /// A copy on another node acknowledged progress.
        case acknowledged
        /// The bucket was deleted, or flushed.
        case retired
    }

    private typealias Notify = @Sendable (News) -> Void

    private struct Listener {
        let number: UInt64
        let notify: Notify
    }

    /// The last acknowledgement of a node's copy, on the node's current stream.
    private struct LastAcknowledgement {
        let link: UInt64
        var progress: NodeAcknowledgement?
    }

    private struct State {
        /// In ascending order of their numbers; a vBucket without listeners is missing.
        var listeners: [VBucketID: [Listener]] = [:]
        var lastNumber: UInt64 = 0
        var acknowledged: [VBucketID: [NodeNumber: LastAcknowledgement]] = [:]

        /// Where a listener of a vBucket is; nil if there is none of that number.
        ///
        /// A thousand indexes each have a listener of every vBucket, and are closed one after the other.
        func index(of number: UInt64, _ vBucket: VBucketID) -> Int? {
            guard let list = listeners[vBucket] else { return nil }
            var (first, end) = (0, list.count)
            while first < end {
                let middle = (first + end) / 2
                if list[middle].number < number { first = middle + 1 } else { end = middle }
            }
            return first < list.count && list[first].number == number ? first : nil
        }
    }

    private let state = Guarded(State())
    /// 1 once the node ends its feeds; read without the lock.
    private let ended = SharedWord.allocated()
    /// The clients' connections that stream the bucket's changes.
    let clients = ProducerNameTable()

    deinit { ended.address.deallocate() }

    /// Ends the calls of all listeners at once, since the node stops.
    ///
    /// A node with 1 000 views has a million of them, and its indexes would wait for each other to
    /// remove them one by one.
    func end() {
        ended.store(1)
        let listeners = state.withLock { exchange(&$0.listeners, with: [:]) }
        // Freed without the lock.
        withExtendedLifetime(listeners) {}
    }

    /// Whether the node stops: readers need not remove their listeners, nor close their cursors.
    var isEnded: Bool { ended.load() != 0 }

    /// Registers `notify` for events of a vBucket, until `ignore` is called with the returned
    /// number.
    func listen(to vBucket: VBucketID, _ notify: @escaping @Sendable (News) -> Void) -> UInt64 {
        state.withLock { state in
            state.lastNumber += 1
            let listener = Listener(number: state.lastNumber, notify: notify)
            if !isEnded { state.listeners[vBucket, default: []].append(listener) }
            return listener.number
        }
    }

    func ignore(_ vBucket: VBucketID, _ number: UInt64) {
        // `end` has dropped it, and a million calls would wait for the lock.
        guard !isEnded else { return }
        state.withLock { state in
            guard let index = state.index(of: number, vBucket) else { return }
            if state.listeners[vBucket]?.count == 1 {
                state.listeners[vBucket] = nil
            } else {
                state.listeners[vBucket]?.remove(at: index)
            }
        }
    }

    func notify(_ news: News, of vBucket: VBucketID) {
        // Copies the elements, not the array: ThreadSanitizer does not recognise a copy of the
        // array as unshared.
        let (first, others) = state.withLock { state in
            guard let listeners = state.listeners[vBucket], let first = listeners.first else {
                return (first: Notify?.none, others: [Notify]())
            }
            // Most vBuckets have one listener, which needs no array: a write may wait for this.
            let others = listeners.count > 1 ? listeners.dropFirst().map { $0.notify } : []
            return (first.notify, others)
        }
        guard let first else { return }
        first(news)
        for notify in others { notify(news) }
    }

    func notify(_ news: News, of vBuckets: [VBucketID]) {
        let callbacks = state.withLock { state in
            vBuckets.flatMap { (state.listeners[$0] ?? []).map(\.notify) }
        }
        for notify in callbacks { notify(news) }
    }

    // MARK: Copies elsewhere

    /// A node requests a vBucket's changes: from now on only this producer's acknowledgements
    /// count.
    ///
    /// Acknowledgements still in flight to an earlier one may describe a copy that no longer
    /// exists.
    func begin(_ node: NodeNumber, _ vBucket: VBucketID, link: UInt64) {
        state.withLock {
            $0.acknowledged[vBucket, default: [:]][node] = LastAcknowledgement(link: link)
        }
    }

    func note(
        _ progress: NodeAcknowledgement,
        of vBucket: VBucketID,
        on node: NodeNumber,
        link: UInt64
    ) {
        let isCurrent = state.withLock { state in
            guard state.acknowledged[vBucket]?[node]?.link == link else { return false }
            state.acknowledged[vBucket]?[node]?.progress = progress
            return true
        }
        if isCurrent { notify(.acknowledged, of: vBucket) }
    }

    /// Discards a node's acknowledgements: its stream is over, and the node may have crashed.
    func forget(_ node: NodeNumber, _ vBucket: VBucketID, link: UInt64) {
        state.withLock { state in
            guard state.acknowledged[vBucket]?[node]?.link == link else { return }
            state.acknowledged[vBucket]?[node] = nil
            if state.acknowledged[vBucket]?.isEmpty == true { state.acknowledged[vBucket] = nil }
        }
    }

    func progress(of vBucket: VBucketID) -> [NodeNumber: NodeAcknowledgement] {
        state.withLock { ($0.acknowledged[vBucket] ?? [:]).compactMapValues(\.progress) }
    }

    func acknowledgements(
        of vBucket: VBucketID
    ) -> [(node: NodeNumber, word: NodeAcknowledgement)] {
        state.withLock { state in
            guard let acknowledged = state.acknowledged[vBucket] else { return [] }
            return acknowledged.compactMap { node, word in word.progress.map { (node, $0) } }
        }
    }
}

extension OpenBucket {
    /// The last acknowledgements of the copies on other nodes, of a vBucket that is active here.
    ///
    /// - Returns: Empty if no copy has acknowledged.
    package func acknowledgements(
        of vBucket: VBucketID
    ) -> [(node: NodeNumber, word: NodeAcknowledgement)] {
        traffic.acknowledgements(of: vBucket)
    }
}
