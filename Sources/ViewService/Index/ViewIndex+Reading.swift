internal import Bytes
package import Indexing
internal import ScriptProcesses
internal import Scripting
internal import Seams
package import Vocabulary
internal import Wire

/// Reading feeds, and mapping what was read.
extension ViewIndex {
    /// Documents and bytes of one batch: large enough that crossing to a script process costs little.
    private static let documentsMax = 128
    private static let bytesMax = 128 << 10

    /// Fills batches until enough are being mapped or there is nothing to read.
    ///
    /// `pending.mapped` is bounded: as soon as the rows have the size of a commit, nothing is read, so
    /// at most the results of `batchesMax` batches are added to them.
    func read() {
        guard health.runaway.cause == nil, mayRead() else { return }
        while hasRoomForBatch, let request = readBatch() {
            sources.reads.isActive = true
            submit(request)
        }
    }

    private var hasRoomForBatch: Bool {
        if isCollecting, let load = progress.load {
            return pending.queue.count < ViewIndex.loadBatchesMax && load.runs.hasRoom
        }
        return pending.queue.count < ViewIndex.batchesMax && !progress.trigger.isDue(now)
    }

    /// A read batch with its mapping request.
    struct Request {
        let batch = ChangeBatch()
        var feeds: [VBucketID: UInt64] = [:]
        var work: ScriptWorkWriter
        let input = MapInput()

        var isFull: Bool {
            batch.changes.count >= ViewIndex.documentsMax || work.byteCount >= ViewIndex.bytesMax
        }
    }

    /// The next changes of feeds that have some; nil if there are none.
    private func readBatch() -> Request? {
        var request = Request(work: ScriptWorkWriter(.map, function))
        let records = ByteWriter(capacity: 64 << 10)
        while !request.isFull, let vBucket = ready.withLock({ $0.removeFirst() }) {
            guard var feed = sources.feeds[vBucket] else { continue }
            records.removeAll(keepingAtMost: 1 << 20)
            let credit = max(1, ViewIndex.bytesMax - request.work.byteCount)
            let progress = feed.feed.step(credit: credit, into: records)
            let isOver = handle(records.view, vBucket, from: &feed, for: &request)
            if isOver { continue }
            sources.feeds[vBucket] = feed
            if progress == .again || progress == .awaitsCredit {
                ready.withLock { $0.insert(vBucket) }
            }
        }
        return request.batch.isEmpty ? nil : request
    }

    /// Adds records of a feed to a request.
    ///
    /// - Returns: Whether the feed has ended.
    private func handle(
        _ records: ByteView,
        _ vBucket: VBucketID,
        from feed: inout Feed,
        for request: inout Request
    ) -> Bool {
        var reader = ChangeRecord.Reader(records)
        // The position of the last change, not of a snapshot that begins behind it.
        var position: IndexPosition?
        request.feeds[vBucket] = feed.number
        while let record = reader.next() {
            feed.read.follow(record)
            switch record {
            case .snapshot: continue
            case .change(let meta, let key, let value):
                let item = append(meta, vBucket, key: key, value: value, to: &request)
                request.batch.add(vBucket, meta.seqno, id: key, item: item)
            case .advanced: break
            case .purged, .ended:
                closeFeed(of: vBucket)
                if case .purged = record {
                    perform(progress.table.purged(vBucket))
                } else {
                    perform(progress.table.ended(vBucket))
                }
                return true
            }
            position = feed.read.position
        }
        if let position { request.batch.move(vBucket, to: position) }
        return false
    }

    /// Adds a document to the mapping request; nil if it has no rows.
    private func append(
        _ meta: DocumentMeta,
        _ vBucket: VBucketID,
        key: ByteView,
        value: ByteView,
        to request: inout Request
    ) -> UInt32? {
        let isMapped =
            !meta.isDeleted
            || dependencies.mapsTombstones && meta.datatype.contains(.xattr)
        guard isMapped,
            let arguments = request.input.arguments(meta, vBucket: vBucket, key: key, value: value)
        else { return nil }
        // A frame has room for the largest document, and a batch ends far below it.
        request.work.append(
            stamp: meta.cas.value,
            first: arguments.meta,
            second: arguments.body
        )
        return UInt32(request.work.count - 1)
    }

    private func submit(_ request: Request) {
        let number = pending.queue.add(Reading(batch: request.batch, feeds: request.feeds))
        guard request.work.count > 0 else { return receive(number, ScriptResults()) }
        dependencies.scripts.submit(request.work.finish()) { [weak self] results in
            guard let self else { return }
            dependencies.lane.post {
                // Without an answer nothing may be committed.
                guard !self.health.isStopped, !results.isStopped else { return }
                self.receive(number, results)
                self.advance()
            }
        }
    }

    /// Handles the rows of a batch: it is committed after the batches before it.
    private func receive(_ number: UInt64, _ results: ScriptResults) {
        guard pending.queue.answer(number, results) else { return }
        while let (reading, results) = pending.queue.removeFirst() {
            note(results, of: reading.batch)
            // A batch of which not all documents were mapped must not be committed.
            guard !results.isAbandoned else { return count(.abandoned) }
            guard !isCollecting else {
                collect(reading, results)
                continue
            }
            let bytes = results.pieces.reduce(0) { $0 + $1.bytes.count }
            progress.trigger.add(documents: reading.batch.changes.count, bytes: bytes, now: now)
            pending.mapped.append((reading, results))
        }
    }

    /// Counts a call, and stops a function that runs away by it.
    private func count(_ call: RunawayRule.Call) {
        if health.runaway.record(call, now: now), let cause = health.runaway.cause {
            runAway(cause)
        }
    }

    /// Counts the failures of a batch for the author, and stops a function that runs away.
    private func note(_ results: ScriptResults, of batch: ChangeBatch) {
        guard !results.failures.isEmpty else {
            // A batch without calls states nothing about the function.
            if batch.changes.contains(where: { $0.item != nil }) { count(.ended) }
            return
        }
        let failures = results.failures.sorted { $0.item < $1.item }
        var next = 0
        for failure in failures {
            if failure.item > next { count(.ended) }
            next = failure.item + 1
            let change = batch.changes.first { $0.item == UInt32(failure.item) }
            let id = change.map { batch.id(of: $0) } ?? .empty
            record(failure.kind.errorKind, id, line: failure.line, text: failure.text)
            count(call(failure))
        }
    }

    private func call(_ failure: ScriptResults.Failure) -> RunawayRule.Call {
        switch failure.kind {
        case .timedOut: .timedOut(nanoseconds: UInt64(function.timeoutMilliseconds) * 1_000_000)
        case .endedProcess, .invalidReply: .endedProcess
        case .abandoned: .abandoned
        case .problem, .stopped: .ended
        }
    }
}

extension ScriptResults.Failure.Kind {
    /// The kind as it is counted for authors.
    var errorKind: ScriptErrors.Kind {
        switch self {
        case .endedProcess: .memory
        case .timedOut, .abandoned: .timedOut
        case .invalidReply, .stopped: .invalidReply
        case .problem(let reason):
            switch reason {
            case .threw, .undefined: .threw
            case .timedOut: .timedOut
            case .keyTooLong: .keyTooLong
            case .emittedTooMuch: .emittedTooMuch
            case .reductionTooLong: .reductionTooLong
            case .notJSON: .notJSON
            }
        }
    }
}

/// Queries that wait for changes.
extension ViewIndex {
    /// Calls `done` on the index's lane when the index has everything through `vector`.
    ///
    /// If the wait ends with `ended`, `fault` has the cause, unless the index was stopped. A wait that
    /// `isWanted` does not want any more is forgotten without a call.
    package func whenFresh(
        _ vector: [VBucketID: AwaitedChange],
        isWanted: @escaping @Sendable () -> Bool = { true },
        done: @escaping @Sendable (FreshnessWaiters.Outcome) -> Void
    ) {
        dependencies.lane.post { [self] in
            guard !health.isStopped, health.failure == nil else {
                return done(.ended)
            }
            forgetUnwantedWaits()
            guard let number = progress.waiters.add(vector, progress.table) else {
                return done(.fresh)
            }
            // The history was replaced since the query read its newest change, or the index has not
            // noticed yet that it was.
            let replaced = vector.first { progress.table.follows($0.key, otherThan: $0.value) }
            if let replaced {
                progress.waiters.remove(number)
                return done(.moved(replaced.key))
            }
            // The index reads no change any more.
            guard health.runaway.cause == nil else {
                progress.waiters.remove(number)
                return done(.ended)
            }
            progress.waiting[number] = Wait(isWanted: isWanted, done: done)
            advance()
        }
    }

    /// Ends the waits that the change of these vBuckets ends.
    func endWaits(_ vBuckets: [VBucketID]) {
        guard !progress.waiters.isEmpty, !vBuckets.isEmpty else { return }
        for (number, outcome) in progress.waiters.changed(
            vBuckets,
            progress.table,
            isServed: progress.served.contains
        ) {
            progress.waiting.removeValue(forKey: number)?.done(outcome)
        }
    }

    /// Queries that have ended leave waits, which no change ends while a vBucket cannot be read.
    private func forgetUnwantedWaits() {
        for (number, wait) in progress.waiting where !wait.isWanted() {
            progress.waiting[number] = nil
            progress.waiters.remove(number)
        }
    }
}
