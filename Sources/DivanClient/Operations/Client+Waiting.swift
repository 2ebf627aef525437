internal import Bytes
internal import Seams
internal import Vocabulary
internal import Wire

/// Operations made of several: reads of all copies, and waiting for persistence.
extension Client {
    /// The first copy that answers with the document: for when the active one cannot.
    ///
    /// It may be older than what was written last.
    package func getAnyCopy(
        _ key: [UInt8],
        _ patience: Patience = .usual,
        _ handler: @escaping Handler<CopyOfDocument>
    ) {
        gather(key, patience, handler) { found in
            let first = found.first { if case .success = $0.result { true } else { false } }
            return first.flatMap { try? $0.result.get() }
        } atEnd: { found in
            found.first { $0.copy == .active }?.result ?? found[0].result
        }
    }

    /// Every copy that has the document, the active one first.
    package func getAllCopies(
        _ key: [UInt8],
        _ patience: Patience = .usual,
        _ handler: @escaping Handler<[CopyOfDocument]>
    ) {
        gather(key, patience, handler) { _ in
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

    /// Asks every copy that the map names; ends when `early` has a result, or all have answered.
    private func gather<Value: Sendable>(
        _ key: [UInt8],
        _ patience: Patience,
        _ handler: @escaping Handler<Value>,
        early: @escaping @Sendable ([Found]) -> Value?,
        atEnd: @escaping @Sendable ([Found]) -> Result<Value, ClientError>
    ) {
        look { [self] map in
            let copies: [KeyRouter.Copy] = [.active] + asked(map, key)
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
                    if let end { handler(end) }
                }
                if case .replica(let number) = copy {
                    getReplica(key, number: number, patience, note)
                } else {
                    get(key, patience, note)
                }
            }
        }
    }

    /// The replicas that a key has now.
    private func asked(_ map: ClusterMap?, _ key: [UInt8]) -> [KeyRouter.Copy] {
        guard let map, !key.isEmpty else { return [] }
        let vBucket = key.withUnsafeBytes { map.vBucket(of: ByteView($0)) }
        return (1..<max(1, map.copies)).filter { map.node(of: vBucket, copy: $0) != nil }
            .map { .replica($0) }
    }

    /// Calls back once the change is on the active node's disk.
    ///
    /// `historyChanged` where a failover has lost it.
    package func waitPersisted(
        _ token: MutationToken,
        _ patience: Patience = .usual,
        _ handler: @escaping Handler<Void>
    ) {
        let milliseconds = patience.milliseconds ?? core.settings.durableTimeoutMilliseconds
        let deadline = core.environment.time.monotonicNanoseconds() + milliseconds * 1_000_000
        watch(token, deadline: deadline, look: 1, handler)
    }

    private func watch(
        _ token: MutationToken,
        deadline: UInt64,
        look: Int,
        _ handler: @escaping Handler<Void>
    ) {
        let now = core.environment.time.monotonicNanoseconds()
        guard now < deadline else {
            let text = "seqno \(token.seqno.value) of \(token.vBucket) was not persisted in time"
            let error = ClientError(.deadline, text, vBucket: token.vBucket, attempts: look - 1)
            return handler(.failure(error))
        }
        observeSeqno(token, .milliseconds(max(1, (deadline - now) / 1_000_000))) { [self] result in
            switch result {
            case .failure(let error): handler(.failure(error))
            case .success(let seen):
                // Of another history, what is on disk says nothing beyond where the two part.
                let isLost =
                    seen.uuid != token.uuid && (seen.forkedAt ?? .zero) < token.seqno
                if isLost {
                    let text =
                        "seqno \(token.seqno.value) of \(token.vBucket) was lost in a failover"
                    let error = ClientError(.historyChanged, text, vBucket: token.vBucket)
                    return handler(.failure(error))
                }
                if seen.persisted >= token.seqno { return handler(.success(())) }
                let wait = RetryPolicy.wait(beforeAttempt: look + 1)
                core.pause(wait) { [self] in
                    watch(token, deadline: deadline, look: look + 1, handler)
                }
            }
        }
    }
}
