package import Vocabulary
internal import Wire

/// The same operations for `async` code; keys are text here.
///
/// Cancelling the task does not take a request back: it ends by its deadline.
extension Client {
    private func wait<Value: Sendable>(
        _ begin: (@escaping Handler<Value>) -> Void
    ) async throws(ClientError) -> Value {
        let result: Result<Value, ClientError> = await withCheckedContinuation { waiter in
            begin { waiter.resume(returning: $0) }
        }
        return try result.get()
    }

    package func get(
        _ key: String,
        _ patience: Patience = .usual
    ) async throws(ClientError) -> Document {
        try await wait { get(Array(key.utf8), patience, $0) }
    }

    package func getReplica(
        _ key: String,
        number: Int,
        _ patience: Patience = .usual
    ) async throws(ClientError) -> Document {
        try await wait { getReplica(Array(key.utf8), number: number, patience, $0) }
    }

    package func getAnyCopy(
        _ key: String,
        _ patience: Patience = .usual
    ) async throws(ClientError) -> CopyOfDocument {
        try await wait { getAnyCopy(Array(key.utf8), patience, $0) }
    }

    package func getAllCopies(
        _ key: String,
        _ patience: Patience = .usual
    ) async throws(ClientError) -> [CopyOfDocument] {
        try await wait { getAllCopies(Array(key.utf8), patience, $0) }
    }

    @discardableResult
    package func set(
        _ key: String,
        _ value: [UInt8],
        _ options: WriteOptions = .plain
    ) async throws(ClientError) -> MutationResult {
        try await wait { set(Array(key.utf8), value, options, $0) }
    }

    @discardableResult
    package func add(
        _ key: String,
        _ value: [UInt8],
        _ options: WriteOptions = .plain
    ) async throws(ClientError) -> MutationResult {
        try await wait { add(Array(key.utf8), value, options, $0) }
    }

    @discardableResult
    package func replace(
        _ key: String,
        _ value: [UInt8],
        _ options: WriteOptions = .plain
    ) async throws(ClientError) -> MutationResult {
        try await wait { replace(Array(key.utf8), value, options, $0) }
    }

    @discardableResult
    package func append(
        _ key: String,
        _ value: [UInt8],
        _ options: WriteOptions = .plain
    ) async throws(ClientError) -> MutationResult {
        try await wait { append(Array(key.utf8), value, options, $0) }
    }

    @discardableResult
    package func prepend(
        _ key: String,
        _ value: [UInt8],
        _ options: WriteOptions = .plain
    ) async throws(ClientError) -> MutationResult {
        try await wait { prepend(Array(key.utf8), value, options, $0) }
    }

    @discardableResult
    package func delete(
        _ key: String,
        _ options: WriteOptions = .plain
    ) async throws(ClientError) -> MutationResult {
        try await wait { delete(Array(key.utf8), options, $0) }
    }

    @discardableResult
    package func increment(
        _ key: String,
        by delta: Int64 = 1,
        initial: UInt64? = nil,
        _ options: WriteOptions = .plain
    ) async throws(ClientError) -> CounterResult {
        try await wait { increment(Array(key.utf8), by: delta, initial: initial, options, $0) }
    }

    @discardableResult
    package func touch(
        _ key: String,
        _ expiry: Expiry,
        _ patience: Patience = .usual
    ) async throws(ClientError) -> CAS {
        try await wait { touch(Array(key.utf8), expiry, patience, $0) }
    }

    package func getAndTouch(
        _ key: String,
        _ expiry: Expiry,
        _ patience: Patience = .usual
    ) async throws(ClientError) -> Document {
        try await wait { getAndTouch(Array(key.utf8), expiry, patience, $0) }
    }

    package func getAndLock(
        _ key: String,
        seconds: UInt32,
        _ patience: Patience = .usual
    ) async throws(ClientError) -> Document {
        try await wait { getAndLock(Array(key.utf8), seconds: seconds, patience, $0) }
    }

    package func unlock(
        _ key: String,
        cas: CAS,
        _ patience: Patience = .usual
    ) async throws(ClientError) {
        try await wait { unlock(Array(key.utf8), cas: cas, patience, $0) }
    }

    package func observeSeqno(
        _ token: MutationToken,
        _ patience: Patience = .usual
    ) async throws(ClientError) -> ObservedSeqno {
        try await wait { observeSeqno(token, patience, $0) }
    }

    package func waitPersisted(
        _ token: MutationToken,
        _ patience: Patience = .usual
    ) async throws(ClientError) {
        try await wait { waitPersisted(token, patience, $0) }
    }
}
