internal import Bytes
internal import Seams
internal import Vocabulary

/// Operations that consist of several requests: reads of all copies, and waiting for persistence.
extension Client {
    /// Reads all copies and returns the first that arrives, in case the active copy cannot answer.
    ///
    /// It may be older than the last acknowledged write. If no copy has the document, the error is
    /// that of the active copy.
    package func getAnyCopy(
        _ key: [UInt8],
        _ timeout: OperationTimeout = .usual,
        done: @escaping Handler<CopyOfDocument>
    ) {
        gather(key, timeout, done) { found in
            let first = found.first { if case .success = $0.result { true } else { false } }
            return first.flatMap { try? $0.result.get() }
        } atEnd: { found in
            found.first { $0.copy == .active }?.result ?? found[0].result
        }
    }

    /// Reads all copies and returns those that have the document, the active one first.
    ///
    /// If none has it, the error is that of the active copy.
    package func getAllCopies(
        _ key: [UInt8],
        _ timeout: OperationTimeout = .usual,
        done: @escaping Handler<[CopyOfDocument]>
    ) {
        gather(key, timeout, done) { _ in
            nil
        } atEnd: { found in
            let sorted = found.sorted { $0.copy.column < $1.copy.column }
            let copies = sorted.compactMap { try? $0.result.get() }
            return copies.isEmpty ? sorted[0].result.map { [$0] } : .success(copies)
        }
    }

    private struct Found: Sendable {
        let copy: KeyRouter.Copy
        let result: Result<CopyOfDocument, ClientError>
    }

    /// Reads every copy that the map names.
    ///
    /// Ends when `early` returns a result, or with the result of `atEnd` when all have answered.
    private func gather<Value: Sendable>(
        _ key: [UInt8],
        _ timeout: OperationTimeout,
        _ done: @escaping Handler<Value>,
        early: @escaping @Sendable ([Found]) -> Value?,
        atEnd: @escaping @Sendable ([Found]) -> Result<Value, ClientError>
    ) {
        currentMap { [self] map in
            let copies: [KeyRouter.Copy] = [.active] + replicas(map, key)
            let found = Guarded<[Found]?>([])
            for copy in copies {
                let note: Handler<Document> = { result in
                    let end: Result<Value, ClientError>? = found.withLock { found in
                        guard var all = found else { return nil }
                        let whole = result.map { CopyOfDocument(document: $0, copy: copy) }
                        all.append(Found(copy: copy, result: whole))
                        found = all
                        let end =
                            early(all).map { .success($0) }
                            ?? (all.count == copies.count ? atEnd(all) : nil)
                        if end != nil { found = nil }
                        return end
                    }
                    if let end { done(end) }
                }
                if case .replica(let number) = copy {
                    getReplica(key, number: number, timeout, done: note)
                } else {
                    get(key, timeout, done: note)
                }
            }
        }
    }

    /// The replicas of a key by the current map; empty if there is no map.
    private func replicas(_ map: ClusterMap?, _ key: [UInt8]) -> [KeyRouter.Copy] {
        guard let map, !key.isEmpty else { return [] }
        let vBucket = key.withUnsafeBytes { map.vBucket(of: ByteView($0)) }
        return (1..<max(1, map.copies)).filter { map.node(of: vBucket, copy: $0) != nil }
            .map { .replica($0) }
    }

    /// Calls back once the change is on the active node's disk.
    ///
    /// Fails with `historyChanged` if a failover has lost the change, or with `deadline`.
    package func waitPersisted(
        _ token: MutationToken,
        _ timeout: OperationTimeout = .usual,
        done: @escaping Handler<Void>
    ) {
        let milliseconds = timeout.milliseconds ?? core.settings.durableTimeoutMilliseconds
        let deadline = core.environment.time.monotonicNanoseconds() + milliseconds * 1_000_000
        pollPersistence(token, deadline: deadline, attempt: 1, done)
    }

    private func pollPersistence(
        _ token: MutationToken,
        deadline: UInt64,
        attempt: Int,
        _ done: @escaping Handler<Void>
    ) {
        let now = core.environment.time.monotonicNanoseconds()
        guard now < deadline else {
            let text = "seqno \(token.seqno.value) of \(token.vBucket) was not persisted in time"
            let error = ClientError(.deadline, text, vBucket: token.vBucket, attempts: attempt - 1)
            return done(.failure(error))
        }
        observeSeqno(token, .milliseconds(max(1, (deadline - now) / 1_000_000))) { [self] result in
            switch result {
            // The vBucket has no history of this UUID any more.
            case .failure(let error) where error.code == .notFound:
                done(.failure(lost(token)))
            case .failure(let error): done(.failure(error))
            case .success(let seen):
                // If the vBucket has another history now, the change is lost if it came after the
                // point where the two histories part.
                let isLost =
                    seen.uuid != token.uuid && (seen.forkedAt ?? .zero) < token.seqno
                if isLost { return done(.failure(lost(token))) }
                if seen.persisted >= token.seqno { return done(.success(())) }
                let wait = RetryPolicy.wait(beforeAttempt: attempt + 1)
                core.pause(wait) { [self] in
                    pollPersistence(token, deadline: deadline, attempt: attempt + 1, done)
                }
            }
        }
    }

    private func lost(_ token: MutationToken) -> ClientError {
        let text = "seqno \(token.seqno.value) of \(token.vBucket) was lost in a failover"
        return ClientError(.historyChanged, text, vBucket: token.vBucket)
    }
}
