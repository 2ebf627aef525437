internal import Indexing
internal import JSON
internal import Persistence
internal import Vocabulary

/// The start of an answer before its first row: the map, freshness, and a snapshot of the index.
extension QueryResponse {
    /// How long a query waits for the map that it was planned with.
    ///
    /// A query that accepts an old index waits as long for a new index to exist.
    static let mapWaitNanoseconds: UInt64 = 500_000_000
    /// How long a query that accepts an old index waits for its first build, so that clients do not
    /// see the build of a small bucket.
    static let buildWaitNanoseconds: UInt64 = 1_000_000_000
    /// How often a query tries to get a reader while all are in use.
    static let readerRetryNanoseconds: UInt64 = 10_000_000
    /// How long a query waits for a reader at most; then the coordinator may use the other nodes' rows.
    static let readerWaitNanoseconds: UInt64 = 10_000_000_000

    // MARK: Admission

    /// Begins with the index, waits for what is missing, or refuses.
    func admit() {
        let version = Collation.version
        guard request.index.collation == version else {
            return finish(
                .failed(
                    "The node orders keys by collation \(version), and the query by"
                        + " \(request.index.collation). Install the same version of ICU on all nodes."
                )
            )
        }
        let buckets = dependencies.buckets
        let state = buckets.state(ofBucket: request.bucket)
        let index = buckets.index(request.index.choice.wanted, ofBucket: request.bucket)
        let isBehind = (state?.revision ?? 0) < request.mapRevision
        let choice = request.index.choice
        let isWaking =
            index == nil && buckets.isWaking(choice.wanted, ofBucket: request.bucket)
        let isComing =
            choice.previous == nil || isWaking
            || choice.usesPrevious
                && buckets.needsIndex(choice.wanted, ofBucket: request.bucket)
        // If the view's other index can answer, the coordinator asks for that at once.
        let waitsForIndex = (index == nil || lacksReduction) && isComing
        let obstacle =
            index == nil ? buckets.obstacle(to: choice.wanted, ofBucket: request.bucket) : nil
        if isBehind || state == nil || waitsForIndex {
            // A file that cannot be opened may not be opened within the query's time.
            let waitsLonger =
                index == nil && obstacle == nil && (isWaking || request.freshness == .current)
            let waitsForMap = isBehind || state == nil
            let until =
                waitsForMap || !waitsLonger ? course.admittedUntil : course.indexAwaitedUntil
            if now < until {
                _ = wait(.admitting, until: until) { $0.admit() }
                return
            }
        }
        guard let index else {
            // The other index may answer.
            guard let obstacle, choice.previous == nil else {
                return finish(.notReady(choice.wanted))
            }
            return finish(.failed(obstacle))
        }
        guard let state, !isBehind else { return finish(.moved(state?.revision ?? 0)) }
        guard state.contains(allOf: request.vBuckets) else {
            return finish(.moved(state.revision))
        }
        if let refusal = index.fault {
            // The other index may answer.
            let isLast = choice.previous == nil
            return finish(isLast ? .failed(refusal) : .notReady(choice.wanted))
        }
        self.index = index
        if request.freshness == .updateAfter { index.requestUpdate() }
        request.freshness == .current ? refresh(index) : open(index)
    }

    /// Whether the node does not have the query's reduction: it may not have applied a changed view yet.
    private var lacksReduction: Bool {
        guard request.scan.reduction != .none, let slot = request.index.slot else { return false }
        return dependencies.buckets.reduction(slot, ofBucket: request.bucket) == nil
    }

    /// Whether the index was closed since the query was admitted, only because it had no work; it is being
    /// opened when this returns.
    private var isAtRest: Bool {
        let (buckets, wanted) = (dependencies.buckets, request.index.choice.wanted)
        return buckets.index(wanted, ofBucket: request.bucket) == nil
            && buckets.isWaking(wanted, ofBucket: request.bucket)
    }

    /// Ends the wait for a vBucket that has left.
    ///
    /// The index does not, if it had stopped to follow the vBucket before the wait began.
    func endIfMoved() {
        guard let state = dependencies.buckets.state(ofBucket: request.bucket),
            !state.contains(allOf: request.vBuckets)
        else { return }
        finish(.moved(state.revision))
    }

    private func finishMoved() {
        let state = dependencies.buckets.state(ofBucket: request.bucket)
        finish(.moved(state?.revision ?? 0))
    }

    // MARK: Freshness

    /// Waits until the index has every change that is visible now.
    private func refresh(_ index: ViewIndex) {
        let vector = dependencies.changes.highVisible(
            of: request.vBuckets,
            ofBucket: request.bucket
        )
        // It has an entry for each of them that is served, and no other. An old active copy whose
        // lease has ended serves none: another node may have acknowledged writes since.
        guard vector.count == request.vBuckets.count else { return finishMoved() }
        awaitIndex(index, vector, until: course.startsUntil) { response in
            response.finish(
                .failed(
                    index.fault ?? "The index of the node was not up to date in time. Retry the"
                        + " query, or use stale=update_after."
                )
            )
        }
    }

    /// Waits a short time until all requested vBuckets are complete, then reads what there is.
    private func awaitBuild(_ index: ViewIndex) {
        course.hasWaitedForBuild = true
        let vector = Dictionary(
            uniqueKeysWithValues: request.vBuckets.map { ($0, AwaitedChange.complete) }
        )
        let until = min(course.startsUntil, now + QueryResponse.buildWaitNanoseconds)
        awaitIndex(index, vector, until: until) { $0.open(index) }
    }

    private func awaitIndex(
        _ index: ViewIndex,
        _ vector: [VBucketID: AwaitedChange],
        until time: UInt64,
        late: @escaping @Sendable (QueryResponse) -> Void
    ) {
        let wait = wait(.refreshing, until: time, late)
        // A response is released when it is over.
        let isWanted = { @Sendable [weak self] in self != nil }
        let done = { @Sendable [weak self] (outcome: FreshnessWaiters.Outcome) in
            guard let self else { return }
            post { response in
                guard response.isWaiting(wait) else { return }
                switch outcome {
                case .fresh: response.open(index)
                case .moved: response.finishMoved()
                case .ended:
                    if response.isAtRest { return response.admit() }
                    let gone = StorageError(.gone, "the index was stopped")
                    guard let refusal = index.fault else { return response.finish(gone) }
                    response.finish(.failed(refusal))
                }
            }
        }
        index.whenFresh(vector, isWanted: isWanted, done: done)
    }

    // MARK: Snapshot

    /// Opens a snapshot, and starts with the rows of the vBuckets that it has.
    func open(_ index: ViewIndex) {
        enter(.opening)
        open(index, until: min(course.startsUntil, now + QueryResponse.readerWaitNanoseconds))
    }

    private func open(_ index: ViewIndex, until time: UInt64) {
        do throws(StorageError) {
            guard let reader = try index.file.acquireReader() else {
                guard now < time else {
                    return finish(
                        .failed("Too many queries read the index at a time. Retry the query later.")
                    )
                }
                let retry = min(time, now + QueryResponse.readerRetryNanoseconds)
                wait(.opening, until: retry) { $0.open(index, until: time) }
                return
            }
            guard
                let snapshot = try QuerySnapshot(
                    reader,
                    of: index,
                    request: request,
                    dependencies: dependencies
                )
            else {
                return finish(.notReady(request.index.choice.wanted))
            }
            self.snapshot = snapshot
            start(snapshot, of: index)
        } catch {
            error.code == .gone && isAtRest ? admit() : finish(error)
        }
    }

    private func start(_ snapshot: QuerySnapshot, of index: ViewIndex) {
        let (rows, missing) = (snapshot.rows, snapshot.missing)
        guard !missing.isEmpty else { return start(QueryStart(indexRows: rows)) }
        // A vBucket that has left is another node's to answer; it is not being built.
        let state = dependencies.buckets.state(ofBucket: request.bucket)
        let isServed = state?.contains(allOf: missing) ?? false
        if isServed, request.index.choice.requiresReady {
            return finish(.notReady(request.index.choice.wanted))
        }
        guard isServed, course.hasWaitedForBuild || request.freshness == .current else {
            closeSnapshot()
            return isServed ? awaitBuild(index) : finishMoved()
        }
        // Until its lane answers, the index may have been completed: the snapshot was not.
        let wait = wait(.opening)
        index.builtPercent { [weak self] percent in
            self?.post { response in
                guard response.isWaiting(wait) else { return }
                let percent = min(percent, 99)
                response.start(
                    QueryStart(indexRows: rows, builtPercent: percent, missing: missing)
                )
            }
        }
    }
}
