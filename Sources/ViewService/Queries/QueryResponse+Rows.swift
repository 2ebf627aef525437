internal import Indexing
internal import Persistence
internal import ScriptProcesses
internal import Seams

/// The rows of the answer: one batch or one exchange with script processes in a turn.
extension QueryResponse {
    /// How often the snapshot of a query that waits for its client is checked.
    static let watchNanoseconds: UInt64 = 1_000_000_000

    /// Reads until a batch is full, while there is credit for it; at most `rowsMax` rows.
    func turn(rowsMax: Int = ScanInput.turnRowsMax) {
        guard let snapshot, credit.isThere() else { return }
        let step: ScanStep
        do throws(StorageError) {
            step = try snapshot.step(rowsMax: rowsMax)
        } catch {
            return finish(error)
        }
        switch step {
        case .paused:
            if snapshot.isBatchFull { sendBatch(of: snapshot) }
            // Without credit, the next credit continues.
            if credit.isThere() { postTurn() } else { stall() }
        case .calls(let calls): reduce(calls, snapshot)
        case .done:
            sendBatch(of: snapshot)
            finish(.end)
        }
    }

    // MARK: Slow clients

    /// The answer waits for its client, and is watched from now on.
    private func stall() {
        course.stall.stall(now)
        watch()
    }

    /// The client has read a batch.
    func resume() {
        course.stall.resume(now)
        turn()
    }

    private func watch() {
        guard !course.isWatched else { return }
        course.isWatched = true
        post(after: QueryResponse.watchNanoseconds) { response in
            response.course.isWatched = false
            guard let index = response.index, response.snapshot != nil else { return }
            if response.course.stall.isOver(response.now, walPages: index.file.walPages) {
                response.dependencies.environment.trace.warning(
                    "views",
                    "Ending a query of index \(index.name) that its client reads too slowly: the"
                        + " index's write-ahead log grows while the query's snapshot is open."
                )
                return response.finish(.failed(StallRule.reason))
            }
            response.watch()
        }
    }

    // MARK: Batches

    private func sendBatch(of snapshot: QuerySnapshot) {
        guard let batch = snapshot.removeBatch() else { return }
        credit.use()
        send(snapshot.reduction == nil ? .rows(batch) : .groups(batch))
    }

    /// Has calls of the reduce function computed.
    private func reduce(_ calls: [ReduceCall], _ snapshot: QuerySnapshot) {
        guard case .custom(let function) = snapshot.reduction else {
            preconditionFailure("only a function of an author is called")
        }
        let works: [ReduceWork]
        switch ReduceWork.make(calls, function) {
        case .success(let made): works = made
        case .failure(let error): return finish(.failed(error.reason))
        }
        let wait = wait(.reducing)
        let exchange = ReduceExchange(calls: calls.count, works: works.count)
        for work in works {
            dependencies.scripts.submit(work.work) { [weak self] results in
                guard let outcome = exchange.add(results, of: work) else { return }
                self?.post { response in
                    guard response.isWaiting(wait) else { return }
                    response.receive(outcome)
                }
            }
        }
    }

    private func receive(_ outcome: Result<[[UInt8]], ReduceFailure>) {
        switch outcome {
        case .failure(let failure): finish(.failed(failure.reason))
        case .success(let results):
            snapshot?.supply(results)
            enter(.scanning)
            turn()
        }
    }
}
