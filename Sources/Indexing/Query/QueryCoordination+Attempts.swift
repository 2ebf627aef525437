internal import Vocabulary

/// The course of an attempt: its beginning, its end by another one or by the opening, and its nodes.
extension QueryCoordination {
    // MARK: Attempts

    mutating func beginAttempt(_ now: UInt64) -> [Action] {
        phase = .gathering
        attempt += 1
        attemptRevision = map.revision
        mapDeadline = .max
        responders = map.parts(usesSubset: terms.usesSubset).map {
            QueryPart(node: $0.node, vBuckets: $0.vBuckets)
        }
        merge = RowMerge(streams: responders.count, plan: mergePlan)
        failures = []
        let requests = responders.map { responder in
            Action.send(
                Dispatch(
                    node: responder.node,
                    attempt: attempt,
                    mapRevision: attemptRevision,
                    vBuckets: responder.vBuckets,
                    use: use
                )
            )
        }
        return requests + reconcile(now)
    }

    /// Abandons the attempt, and begins the next one after a pause.
    mutating func restart(_ now: UInt64) -> [Action] {
        let pause = min(
            QueryCoordination.pauseMillisecondsMin << UInt64(min(restartCount, 6)),
            QueryCoordination.pauseMillisecondsMax
        )
        restartCount += 1
        let actions = cancelAll()
        let until = min(now + pause, terms.deadline)
        phase = .pausing(until: until)
        return actions + [.wake(at: until)]
    }

    /// Opens the query if no node can still start in this attempt.
    mutating func reconcile(_ now: UInt64) -> [Action] {
        let isLate = now >= terms.deadline
        let hasUnreachable = responders.contains {
            if case .unreachable = $0.state { true } else { false }
        }
        if hasUnreachable, !isLate {
            if map.revision > attemptRevision, now < terms.restartsUntil { return restart(now) }
            if now < mapDeadline { return [] }
        }
        if !isLate, responders.contains(where: { $0.state == .asked }) { return [] }
        return open()
    }

    // MARK: Opening

    private mutating func open() -> [Action] {
        var actions: [Action] = []
        for index in responders.indices {
            switch responders[index].state {
            case .asked:
                actions.append(.cancel(node: responders[index].node, attempt: attempt))
                record(index, .timedOut)
            case .unreachable(let why): record(index, .lost(why))
            case .started(let start), .ended(let start):
                guard !start.missing.isEmpty else { continue }
                failures.append(
                    QueryFailure(
                        node: responders[index].node,
                        vBuckets: start.missing,
                        cause: .building(percent: start.builtPercent)
                    )
                )
            case .failed, .disordered: continue
            }
        }
        // The subset is read from a vBucket that has an active copy.
        let missing = terms.usesSubset && !responders.isEmpty ? [] : unasked
        if !missing.isEmpty {
            failures.append(QueryFailure(node: nil, vBuckets: missing, cause: .notServed))
        }
        if !failures.isEmpty, mergePlan.failurePolicy == .stopRows { merge.stop() }
        phase = .open
        let totalRows = responders.reduce(0 as UInt64) { total, responder in
            let (sum, isOverflow) = total.addingReportingOverflow(responder.start?.indexRows ?? 0)
            return isOverflow ? .max : sum
        }
        return actions + [.open(totalRows: totalRows)]
    }

    /// The vBuckets of the newest map of which no node was asked.
    private var unasked: [VBucketID] {
        let count = map.actives.count
        let asked = responders.reduce(0) { $0 + $1.vBuckets.count }
        if map.revision == attemptRevision, asked == count { return [] }
        var isServed = [Bool](repeating: false, count: count)
        for responder in responders {
            // The newest map may be another one than that of the attempt.
            for vBucket in responder.vBuckets where Int(vBucket.number) < isServed.count {
                isServed[Int(vBucket.number)] = true
            }
        }
        return isServed.indices.filter { !isServed[$0] }.map { VBucketID(UInt16($0)) }
    }

    /// Opens at the deadline during a pause.
    mutating func openWithoutResponders() -> [Action] {
        responders = []
        merge = RowMerge(streams: 0, plan: mergePlan)
        var all = (0..<UInt16(map.actives.count)).map { VBucketID($0) }
        if terms.usesSubset, let subset = map.subset { all = [subset] }
        failures = all.isEmpty ? [] : [QueryFailure(node: nil, vBuckets: all, cause: .moved)]
        phase = .open
        return [.open(totalRows: 0)]
    }

    // MARK: Responders

    func indexOfActive(_ node: NodeNumber, _ attempt: Int) -> Int? {
        guard attempt == self.attempt, phase == .gathering || phase == .open else { return nil }
        return responders.firstIndex { $0.node == node && $0.isActive }
    }

    mutating func feed(
        _ index: Int,
        _ batch: RowBatch,
        isGrouped: Bool,
        now: UInt64
    ) -> [Action] {
        guard responders[index].start != nil, isGrouped == mergePlan.isGrouped else {
            return fail(index, .invalid("It sent rows that were not expected."), now: now)
        }
        guard merge.feed(index, batch) == .accepted else {
            return fail(index, .invalid("It sent more rows than requested."), now: now)
        }
        recordDisorder()
        return phase == .gathering ? reconcile(now) : []
    }

    /// Ends a node's part because of an error.
    mutating func fail(
        _ index: Int,
        _ cause: QueryFailure.Cause,
        now: UInt64
    ) -> [Action] {
        let isOver: Bool
        switch cause {
        case .lost, .failed, .moved, .notBuilt: isOver = true
        case .notServed, .timedOut, .building, .invalid: isOver = false
        }
        let node = responders[index].node
        record(index, cause)
        let cancels: [Action] = isOver ? [] : [.cancel(node: node, attempt: attempt)]
        return cancels + (phase == .gathering ? reconcile(now) : [])
    }

    private mutating func record(_ index: Int, _ cause: QueryFailure.Cause) {
        responders[index].state = .failed
        merge.fail(index)
        failures.append(responders[index].failure(cause))
    }

    /// Ends the part of the node that sent a row, because the row cannot be shown.
    package mutating func reject(_ row: MergedRow, because why: String) -> [Action] {
        guard phase == .open, responders.indices.contains(row.stream) else { return [] }
        merge.reject(row.stream)
        guard responders[row.stream].start != nil else { return [] }
        record(row.stream, .invalid(why))
        return [.cancel(node: responders[row.stream].node, attempt: attempt)]
    }

    /// Records the streams that the merge ended.
    mutating func recordDisorder() {
        guard !merge.disordered.isEmpty else { return }
        for index in merge.removeDisordered() {
            record(index, .invalid("Its rows are out of order."))
            responders[index].state = .disordered
        }
    }

    func cancelAll() -> [Action] {
        responders.filter { $0.isActive || $0.state == .disordered }
            .map { .cancel(node: $0.node, attempt: attempt) }
    }
}

extension QueryCoordination.ServingMap {
    /// The parts of a query: of all vBuckets, or of the subset for development views.
    fileprivate func parts(usesSubset: Bool) -> [Part] {
        guard usesSubset else { return parts }
        guard let subset, let node = actives[Int(subset.number)] else { return [] }
        return [Part(node: node, vBuckets: [subset])]
    }

    static func parts(of actives: [NodeNumber?]) -> [Part] {
        // Few nodes serve many vBuckets: a search is shorter than hashing.
        var parts: [Part] = []
        for (number, node) in actives.enumerated() {
            guard let node else { continue }
            let vBucket = VBucketID(UInt16(number))
            var place = 0
            while place < parts.count, parts[place].node < node { place += 1 }
            if place < parts.count, parts[place].node == node {
                parts[place].vBuckets.append(vBucket)
            } else {
                parts.insert(Part(node: node, vBuckets: [vBucket]), at: place)
            }
        }
        return parts
    }
}
