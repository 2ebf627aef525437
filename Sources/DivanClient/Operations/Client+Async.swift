package import Vocabulary
internal import Wire

/// The same operations for `async` code, with keys as text.
///
/// Cancelling the task does not cancel the operation, which ends by its deadline. Any operation may
/// throw the errors that the client decides on (`ClientError.Code`), such as `unreachable`.
extension Client {
    private func wait<Value: Sendable>(
        _ begin: (@escaping Handler<Value>) -> Void
    ) async throws(ClientError) -> Value {
        let result: Result<Value, ClientError> = await withCheckedContinuation { waiter in
            begin { waiter.resume(returning: $0) }
        }
        return try result.get()
    }

    /// Reads a document.
    ///
    /// - Throws: `ClientError`: `notFound`, and what any operation may throw.
    package func get(
        _ key: String,
        _ timeout: OperationTimeout = .usual
    ) async throws(ClientError) -> Document {
        try await wait { get(Array(key.utf8), timeout, $0) }
    }

    /// Reads one replica, numbered from 1; it may be older than the active copy.
    ///
    /// - Throws: `ClientError`: `notFound` if it has no such document, and what any operation may
    ///   throw.
    package func getReplica(
        _ key: String,
        number: Int,
        _ timeout: OperationTimeout = .usual
    ) async throws(ClientError) -> Document {
        try await wait { getReplica(Array(key.utf8), number: number, timeout, $0) }
    }

    /// Reads all copies and returns the first that arrives.
    ///
    /// - Throws: `ClientError`: that of the active copy, if no copy has the document, and what any
    ///   operation may throw.
    package func getAnyCopy(
        _ key: String,
        _ timeout: OperationTimeout = .usual
    ) async throws(ClientError) -> CopyOfDocument {
        try await wait { getAnyCopy(Array(key.utf8), timeout, $0) }
    }

    /// Reads all copies and returns those that have the document, the active one first.
    ///
    /// - Throws: `ClientError`: that of the active copy, if no copy has the document, and what any
    ///   operation may throw.
    package func getAllCopies(
        _ key: String,
        _ timeout: OperationTimeout = .usual
    ) async throws(ClientError) -> [CopyOfDocument] {
        try await wait { getAllCopies(Array(key.utf8), timeout, $0) }
    }

    /// Stores a document.
    ///
    /// - Throws: `ClientError`: `exists` if the document has another CAS than `options` name, and
    ///   what any operation may throw.
    @discardableResult
    package func set(
        _ key: String,
        _ value: [UInt8],
        _ options: WriteOptions = .plain
    ) async throws(ClientError) -> MutationResult {
        try await wait { set(Array(key.utf8), value, options, $0) }
    }

    /// Stores a document that does not exist yet.
    ///
    /// - Throws: `ClientError`: `exists` if the document exists, and what any operation may throw.
    @discardableResult
    package func add(
        _ key: String,
        _ value: [UInt8],
        _ options: WriteOptions = .plain
    ) async throws(ClientError) -> MutationResult {
        try await wait { add(Array(key.utf8), value, options, $0) }
    }

    /// Stores a document that exists.
    ///
    /// - Throws: `ClientError`: `notFound` or `exists`, and what any operation may throw.
    @discardableResult
    package func replace(
        _ key: String,
        _ value: [UInt8],
        _ options: WriteOptions = .plain
    ) async throws(ClientError) -> MutationResult {
        try await wait { replace(Array(key.utf8), value, options, $0) }
    }

    /// Appends to a value.
    ///
    /// - Throws: `ClientError`: `notFound` or `exists`, and what any operation may throw.
    @discardableResult
    package func append(
        _ key: String,
        _ value: [UInt8],
        _ options: WriteOptions = .plain
    ) async throws(ClientError) -> MutationResult {
        try await wait { append(Array(key.utf8), value, options, $0) }
    }

    /// Prepends to a value.
    ///
    /// - Throws: `ClientError`: `notFound` or `exists`, and what any operation may throw.
    @discardableResult
    package func prepend(
        _ key: String,
        _ value: [UInt8],
        _ options: WriteOptions = .plain
    ) async throws(ClientError) -> MutationResult {
        try await wait { prepend(Array(key.utf8), value, options, $0) }
    }

    /// Deletes a document.
    ///
    /// - Throws: `ClientError`: `notFound` or `exists`, and what any operation may throw.
    @discardableResult
    package func delete(
        _ key: String,
        _ options: WriteOptions = .plain
    ) async throws(ClientError) -> MutationResult {
        try await wait { delete(Array(key.utf8), options, $0) }
    }

    /// Adds to a number, which does not fall below 0; returns the new one.
    ///
    /// - Throws: `ClientError`: `notANumber`, or `notFound` without `initial`, and what any
    ///   operation may throw.
    @discardableResult
    package func increment(
        _ key: String,
        by delta: Int64 = 1,
        initial: UInt64? = nil,
        _ options: WriteOptions = .plain
    ) async throws(ClientError) -> CounterResult {
        try await wait { increment(Array(key.utf8), by: delta, initial: initial, options, $0) }
    }

    /// Sets the expiry of a document; returns its CAS.
    ///
    /// - Throws: `ClientError`: `notFound`, and what any operation may throw.
    @discardableResult
    package func touch(
        _ key: String,
        _ expiry: Expiry,
        _ timeout: OperationTimeout = .usual
    ) async throws(ClientError) -> CAS {
        try await wait { touch(Array(key.utf8), expiry, timeout, $0) }
    }

    /// Reads a document and sets its expiry.
    ///
    /// - Throws: `ClientError`: `notFound`, and what any operation may throw.
    package func getAndTouch(
        _ key: String,
        _ expiry: Expiry,
        _ timeout: OperationTimeout = .usual
    ) async throws(ClientError) -> Document {
        try await wait { getAndTouch(Array(key.utf8), expiry, timeout, $0) }
    }

    /// Reads a document and locks it for `seconds`.
    ///
    /// - Throws: `ClientError`: `notFound` or `locked`, and what any operation may throw.
    package func getAndLock(
        _ key: String,
        seconds: UInt32,
        _ timeout: OperationTimeout = .usual
    ) async throws(ClientError) -> Document {
        try await wait { getAndLock(Array(key.utf8), seconds: seconds, timeout, $0) }
    }

    /// Unlocks a document by the CAS that `getAndLock` returned.
    ///
    /// - Throws: `ClientError`: `notLocked`, or `locked` if the CAS is another, and what any
    ///   operation may throw.
    package func unlock(
        _ key: String,
        cas: CAS,
        _ timeout: OperationTimeout = .usual
    ) async throws(ClientError) {
        try await wait { unlock(Array(key.utf8), cas: cas, timeout, $0) }
    }

    /// Reads the seqnos of a vBucket from its active node.
    ///
    /// - Throws: `ClientError`: `notFound` if the vBucket has no history of the token's UUID,
    ///   `refused` if the answer is malformed, and what any operation may throw.
    package func observeSeqno(
        _ token: MutationToken,
        _ timeout: OperationTimeout = .usual
    ) async throws(ClientError) -> ObservedSeqno {
        try await wait { observeSeqno(token, timeout, $0) }
    }

    /// Returns once the change is on the active node's disk.
    ///
    /// - Throws: `ClientError`: `historyChanged` if a failover has lost the change, and what any
    ///   operation may throw.
    package func waitPersisted(
        _ token: MutationToken,
        _ timeout: OperationTimeout = .usual
    ) async throws(ClientError) {
        try await wait { waitPersisted(token, timeout, $0) }
    }
}
