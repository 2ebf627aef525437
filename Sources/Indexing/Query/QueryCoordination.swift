package import Vocabulary

/// Collects the answer of a view query from the nodes that serve the bucket's vBuckets.
///
/// It asks one node for each vBucket and waits until all these nodes have started. Only then is the
/// query open, and its client gets bytes. Before that, a node that does not serve a vBucket makes
/// the whole query start again with a newer map; afterwards its part is missing, and the answer
/// names it. Events come in as calls, with the time in milliseconds; actions are returned.
///
/// - Each vBucket is asked of one node per attempt, and replies to earlier attempts are ignored. So
///   its rows are counted exactly once, whatever moves meanwhile.
/// - A vBucket whose rows are missing or incomplete is in `failures`.
/// - All nodes of an attempt use the same index. The index of the view's previous definition answers as a
///   whole, or not at all.
package struct QueryCoordination: Sendable {
    /// The pause before the first restart; each one is twice as long as the one before, up to the
    /// longest.
    package static let pauseMillisecondsMin: UInt64 = 10
    package static let pauseMillisecondsMax: UInt64 = 500
    /// How long a query that accepts an old index restarts: longer than a change of the map needs to
    /// reach all nodes.
    package static let restartMilliseconds: UInt64 = 2_000
    /// As `restartMilliseconds`, for queries with `stale=false`.
    package static let currentRestartMilliseconds: UInt64 = 15_000

    let terms: Terms
    /// The newest map.
    var map: ServingMap
    /// The revision of the map of the current attempt.
    var attemptRevision: UInt64 = 0
    package internal(set) var attempt = 0
    package internal(set) var restartCount = 0
    /// The index of the current attempt.
    package private(set) var use: IndexUse
    var phase = Phase.idle
    var responders: [QueryPart] = []
    var merge: RowMerge
    /// The missing rows of the answer and their causes; complete when `next` has returned `done`.
    package internal(set) var failures: [QueryFailure] = []
    /// Until when an unreachable node's vBuckets may get another node.
    var mapDeadline: UInt64 = .max

    /// The deadlines, merge plans and scope of all attempts of a query.
    package struct Terms: Sendable {
        /// The time at which the query opens with what it has.
        package var deadline: UInt64
        /// From this time on a node that does not serve its vBuckets is a failure: the query restarts
        /// no more, so that the other nodes can start before the deadline.
        package var restartsUntil: UInt64
        package var merge: MergePlan
        /// How rows of the view's previous definition are combined; nil if its index must not answer.
        package var previousMerge: MergePlan?
        /// Whether only the map's `subset` is read.
        package var usesSubset = false

        package init(deadline: UInt64, merge: MergePlan, previousMerge: MergePlan? = nil) {
            self.deadline = deadline
            restartsUntil = deadline
            self.merge = merge
            self.previousMerge = previousMerge
        }

        /// Limits the restarts of a query that begins at `now`.
        ///
        /// A query with `stale=false` waits for a promotion, but not until its deadline: a vBucket
        /// whose copies are all lost is never served. The other ones restart for a short time.
        package mutating func limitRestarts(_ freshness: ViewQuery.Freshness, now: UInt64) {
            let span = deadline > now ? deadline - now : 0
            let most = span - span / 8
            let limit =
                freshness == .current
                ? QueryCoordination.currentRestartMilliseconds
                : QueryCoordination.restartMilliseconds
            restartsUntil = now + min(most, limit)
        }
    }

    /// Which of a view's indexes the nodes of an attempt read.
    package enum IndexUse: Equatable, Sendable {
        /// The current one, if all nodes have it completely. Next: `previous`.
        case currentIfReady
        /// The index of the previous definition. Next: `current`.
        case previous
        /// The current one as it is: the answer names what is missing. Final.
        case current

        /// The index to read after a node has replied `notReady`; nil if there is no other.
        var next: IndexUse? {
            switch self {
            case .currentIfReady: .previous
            case .previous: .current
            case .current: nil
            }
        }
    }

    /// Which node serves each vBucket.
    package struct ServingMap: Equatable, Sendable {
        package var revision: UInt64
        /// By vBucket number; nil where there is no active copy.
        package var actives: [NodeNumber?] {
            didSet { parts = ServingMap.parts(of: actives) }
        }
        /// The vBuckets of each node that serves some, both in ascending order.
        ///
        /// Made with the map, because many queries share a map.
        private(set) var parts: [Part]

        /// The vBuckets of one node.
        struct Part: Equatable, Sendable {
            let node: NodeNumber
            var vBuckets: [VBucketID]
        }

        package init(revision: UInt64, actives: [NodeNumber?]) {
            self.revision = revision
            self.actives = actives
            parts = ServingMap.parts(of: actives)
        }
    }

    enum Phase: Equatable, Sendable {
        /// Next: `gathering`.
        case idle
        /// Waits for all nodes to start. Next: `pausing`, `open`.
        case gathering
        /// Waits for the next attempt. Next: `gathering`, `open`.
        case pausing(until: UInt64)
        /// Rows can be read. Next: `closed`.
        case open
        /// No event has an effect. Final.
        case closed
    }

    /// A step that the service carries out for the query.
    package enum Action: Equatable, Sendable {
        /// Send a request to a node, whose replies are events of this attempt.
        case send(Dispatch)
        /// End the node's work for an attempt.
        case cancel(node: NodeNumber, attempt: Int)
        /// Write the beginning of the answer, and read rows.
        case open(totalRows: UInt64)
        /// Call `advance` at this time.
        case wake(at: UInt64)
    }

    /// One node's part of an attempt.
    package struct Dispatch: Equatable, Sendable {
        package let node: NodeNumber
        package let attempt: Int
        package let mapRevision: UInt64
        package let vBuckets: [VBucketID]
        package let use: IndexUse
    }

    package init(_ terms: Terms, map: ServingMap) {
        self.terms = terms
        self.map = map
        use = terms.previousMerge == nil ? .current : .currentIfReady
        merge = RowMerge(streams: 0, plan: terms.merge)
    }

    // Inlinable, because a call from another module would copy the whole coordination.
    package var usesPreviousIndex: Bool { use == .previous }

    /// How rows of the current attempt are combined.
    var mergePlan: MergePlan {
        usesPreviousIndex ? terms.previousMerge ?? terms.merge : terms.merge
    }

    // MARK: Events

    /// Begins the first attempt.
    package mutating func begin(now: UInt64) -> [Action] {
        precondition(phase == .idle, "a query begins once")
        return [.wake(at: terms.deadline)] + beginAttempt(now)
    }

    /// The node has a newer map.
    package mutating func adopt(_ newer: ServingMap, now: UInt64) -> [Action] {
        guard newer.revision > map.revision else { return [] }
        map = newer
        return phase == .gathering ? reconcile(now) : []
    }

    /// A reply to a request of an attempt.
    package mutating func handle(
        _ reply: QueryReply,
        from node: NodeNumber,
        attempt: Int,
        now: UInt64
    ) -> [Action] {
        guard let index = indexOfActive(node, attempt) else { return [] }
        switch reply {
        case .start(let start):
            guard responders[index].state == .asked else {
                return fail(index, .invalid("It started twice."), now: now)
            }
            let isAsked =
                start.missing.isEmpty
                || Set(start.missing).isSubset(of: responders[index].vBuckets)
            guard isAsked else {
                return fail(index, .invalid("It named vBuckets that were not requested."), now: now)
            }
            responders[index].state = .started(start)
        case .rows(let batch): return feed(index, batch, isGrouped: false, now: now)
        case .groups(let batch): return feed(index, batch, isGrouped: true, now: now)
        case .end:
            guard let start = responders[index].start else {
                return fail(index, .invalid("It ended before it started."), now: now)
            }
            responders[index].state = .ended(start)
            merge.finish(index)
        case .failed(let why): return fail(index, .failed(why), now: now)
        case .moved:
            if phase == .gathering, now < terms.restartsUntil { return restart(now) }
            return fail(index, .moved, now: now)
        case .notReady:
            if phase == .gathering, let next = use.next {
                use = next
                return cancelAll() + beginAttempt(now)
            }
            return fail(index, .notBuilt, now: now)
        }
        return phase == .gathering ? reconcile(now) : []
    }

    /// The connection to a node was lost, or a reply of it could not be read.
    package mutating func lose(
        _ node: NodeNumber,
        attempt: Int,
        because why: String,
        now: UInt64
    ) -> [Action] {
        guard let index = indexOfActive(node, attempt) else { return [] }
        guard phase == .gathering else { return fail(index, .lost(why), now: now) }
        responders[index].state = .unreachable(why)
        if mapDeadline == .max {
            // Another map has no effect after `restartsUntil`.
            mapDeadline = min(now + Limits.mapWaitMilliseconds, terms.restartsUntil)
        }
        return [.wake(at: min(mapDeadline, terms.deadline))] + reconcile(now)
    }

    /// Time has passed.
    package mutating func advance(now: UInt64) -> [Action] {
        switch phase {
        case .gathering: return reconcile(now)
        case .pausing(let until):
            if now >= terms.deadline { return openWithoutResponders() }
            return now >= until ? beginAttempt(now) : [.wake(at: until)]
        case .idle, .open, .closed: return []
        }
    }

    /// Ends the query: its rows are read, or its client is gone.
    package mutating func close() -> [Action] {
        if phase == .closed { return [] }
        defer { phase = .closed }
        return phase == .gathering || phase == .open ? cancelAll() : []
    }

    // MARK: Rows

    /// The next row or group of the answer; nil while the query is not open.
    ///
    /// If it returns `needsMore`, call it again after the next event. The streams that it names are
    /// the attempt's nodes in ascending order.
    package mutating func next() -> RowMerge.Step? {
        guard phase == .open else { return nil }
        let step = merge.next()
        recordDisorder()
        return step
    }

    /// The nodes of consumed batches: each may send one batch more.
    package mutating func removeCredits() -> [NodeNumber] {
        merge.removeCredits().compactMap { index in
            responders[index].isActive ? responders[index].node : nil
        }
    }

    /// The node that sent a row of this query.
    package func node(of row: MergedRow) -> NodeNumber? {
        responders.indices.contains(row.stream) ? responders[row.stream].node : nil
    }
}
