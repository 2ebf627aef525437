internal import Bytes
internal import Credentials
package import Seams
package import Vocabulary
package import Wire

/// Divan's smart client for one bucket of a cluster.
///
/// It routes every operation by the cluster map to the node that has the key's vBucket, follows
/// changes of the map, and retries an operation until its deadline if a retry is safe. It uses only
/// the seams, so that the simulator runs the same client as programs do.
///
///     let client = try await Client.open(settings, environment: world.environment)
///     client.set(key, value) { result in ... }
///     let document = try await client.perform { $0.get(key, done: $1) }
///     await client.close()
///
/// Every operation has a callback, which is called on the client's lane; `perform` awaits any of
/// them. Besides the errors that an operation's comment names, it may fail with those that the
/// client decides on (`ClientError.Code`), such as `unreachable`.
///
/// - Every operation ends exactly once, by its deadline.
/// - A write with an unknown outcome always ends as `ambiguous`.
package final class Client: Sendable {
    package typealias Handler<Value> = @Sendable (Result<Value, ClientError>) -> Void

    let core: ClientCore
    private let ownsLane: Bool
    /// Set before the client's own lane ends, because work posted later would never run.
    private let hasStopped = Guarded(false)

    /// A client that does nothing before `open`.
    ///
    /// - Parameters:
    ///   - settings: Nodes, bucket, user and limits.
    ///   - features: What it requests in HELLO beside its usual features.
    ///   - environment: The seams.
    ///   - lane: Runs the client and its callbacks; nil for a lane of its own.
    package init(
        _ settings: ClientSettings,
        features: FeatureSet = FeatureSet(),
        environment: Environment,
        lane: (any Lane)? = nil
    ) {
        ownsLane = lane == nil
        core = ClientCore(
            settings,
            features,
            environment: environment,
            lane: lane ?? environment.lanes.makeLane("client")
        )
    }

    // MARK: Opening and closing

    /// Opens the bucket.
    ///
    /// Calls `done` once there is a map, or when opening has failed.
    ///
    /// Operations may be submitted at once; they wait for the map.
    package func open(_ done: @escaping Handler<Void>) {
        let isTaken = onLane { [core] in core.open(done) }
        if !isTaken { done(.failure(Client.closed)) }
    }

    /// Ends all operations and connections, then calls `done`; for clients that were made with a
    /// lane.
    ///
    /// Writes that were sent and are not answered end as `ambiguous`, all other operations as
    /// `closed`.
    package func close(_ done: @escaping @Sendable () -> Void) {
        let isTaken = onLane { [core] in core.close(done) }
        if !isTaken { done() }
    }

    /// Makes a client and opens its bucket.
    ///
    /// - Throws: `ClientError`: `authentication`, `noBucket`, `unreachable` or `invalid`.
    package static func open(
        _ settings: ClientSettings,
        environment: Environment
    ) async throws(ClientError) -> Client {
        let client = Client(settings, environment: environment)
        do throws(ClientError) {
            try await client.perform { $0.open($1) }
        } catch {
            await client.close()
            throw error
        }
        return client
    }

    /// Ends all operations and connections, and the lane if it is the client's own.
    ///
    /// Must not be called on that lane.
    package func close() async {
        await withCheckedContinuation { waiter in
            close { waiter.resume() }
        }
        guard ownsLane else { return }
        let isFirst = hasStopped.withLock { !exchange(&$0, with: true) }
        if isFirst { core.lane.stop() }
    }

    /// Passes the current cluster map to `done`; nil if there is none yet, or the client is closed.
    package func currentMap(_ done: @escaping @Sendable (ClusterMap?) -> Void) {
        let isTaken = onLane { [core] in done(core.cache.current) }
        if !isTaken { done(nil) }
    }

    private static let closed = ClientError(.closed, "the client is closed")

    /// Posts `work` to the lane; false if the lane has ended.
    private func onLane(_ work: @escaping @Sendable () -> Void) -> Bool {
        // Under the lock, because a lane runs all work that was posted before it was stopped.
        hasStopped.withLock { hasStopped in
            if !hasStopped { core.lane.post(work) }
            return !hasStopped
        }
    }

    // MARK: One operation

    /// Begins an operation with a callback, and awaits its result.
    ///
    ///     let stored = try await client.perform { $0.set(key, value, done: $1) }
    ///
    /// Cancelling the task does not cancel the operation, which ends by its deadline.
    ///
    /// - Throws: `ClientError`, with which the operation ended.
    @discardableResult
    package func perform<Value: Sendable>(
        _ begin: (Client, @escaping Handler<Value>) -> Void
    ) async throws(ClientError) -> Value {
        let result = await withCheckedContinuation { waiter in
            begin(self) { waiter.resume(returning: $0) }
        }
        return try result.get()
    }

    /// Submits a request; `read` turns its answer into the result for `handler`.
    func perform<Value: Sendable>(
        _ request: Request,
        _ timeout: OperationTimeout,
        handler: @escaping Handler<Value>,
        read: @escaping @Sendable (Operation.Reply) throws(ClientError) -> Value
    ) {
        let complete: Operation.Completion = { result in
            handler(
                result.flatMap { reply in
                    do throws(ClientError) {
                        return .success(try read(reply))
                    } catch {
                        return .failure(error)
                    }
                }
            )
        }
        let nanoseconds = nanoseconds(for: request, timeout)
        let isTaken = onLane { [core] in
            if let refusal = request.refusal { return complete(.failure(refusal)) }
            core.submit(request, timeout: nanoseconds, complete)
        }
        if !isTaken { complete(.failure(Client.closed)) }
    }

    private func nanoseconds(for request: Request, _ timeout: OperationTimeout) -> UInt64 {
        let settings = core.settings
        let usual =
            request.durability == nil
            ? settings.timeoutMilliseconds : settings.durableTimeoutMilliseconds
        return (timeout.milliseconds ?? usual) * 1_000_000
    }
}

/// The timeout of an operation, including all its attempts.
package struct OperationTimeout: Sendable {
    /// Nil for the timeout in the client's settings.
    package let milliseconds: UInt64?

    package static let usual = OperationTimeout(milliseconds: nil)

    package static func milliseconds(_ count: UInt64) -> OperationTimeout {
        OperationTimeout(milliseconds: count)
    }
}

/// The settings of a client, with defaults.
package struct ClientSettings: Sendable {
    /// The nodes to connect to first; one that answers is enough.
    package var bootstrap: [SocketAddress]
    package var bucket: String
    package var user: String
    package var password: String { didSet { keys = SCRAMPassword(password) } }
    /// The keys derived from the password.
    ///
    /// All clients made from one settings value or its copies share them, and derive them once.
    private(set) var keys: SCRAMPassword
    /// Connects with TLS to the servers that this believes; nil for plain ports.
    package var trust: (any ServerTrust)?
    /// Allows sending the password itself to a server that offers no SCRAM mechanism.
    package var allowsPlain = false
    /// Timeout of an operation with all its attempts, unless the call sets one.
    package var timeoutMilliseconds: UInt64 = 2_500
    /// As `timeoutMilliseconds`, for durable writes, which wait for other nodes.
    package var durableTimeoutMilliseconds: UInt64 = 10_000
    package var openTimeoutMilliseconds: UInt64 = 10_000
    /// Pending operations of the client; further ones are refused at once.
    package var operationsMax = 65_536
    /// Bytes of keys and values of all pending operations; beyond it, operations are refused.
    package var bytesMax = 256 << 20
    /// Unanswered requests on one connection; further ones wait in the client.
    package var pipelineMax = 1_024
    /// Interval between requests for a newer map, if the nodes do not push maps.
    package var pollMilliseconds: UInt64 = 2_500
    /// Silence on a connection with unanswered requests after which the client sends a probe.
    package var probeMilliseconds: UInt64 = 500
    /// Silence on such a connection after which the client closes it: the node hangs or is cut off.
    package var silenceMilliseconds: UInt64 = 1_500
    /// Timeout for a connection to open and log in.
    package var connectMilliseconds: UInt64 = 2_000

    package init(bootstrap: [SocketAddress], bucket: String, user: String, password: String) {
        self.bootstrap = bootstrap
        self.bucket = bucket
        self.user = user
        self.password = password
        keys = SCRAMPassword(password)
    }
}

/// The failure of an operation: a code for the program, and a sentence with the attempts.
package struct ClientError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: String, Hashable, Sendable {
        // Decided by the server.
        case notFound
        /// The document exists already, or has another CAS than the given one.
        case exists
        case locked
        case notLocked
        case tooBig
        /// The value is not a number that a counter can change.
        case notANumber
        case durabilityImpossible
        case durabilityUnsupported
        /// Another durable write of the document was in progress until the deadline.
        case durableWriteInProgress
        /// The change was lost in a failover.
        case historyChanged
        case unsupported
        case refused

        // Decided by the client.
        /// The server answered "temporary failure" until the deadline. The operation was not
        /// carried out.
        case temporaryFailure
        /// The write was sent and not answered: it may have been carried out or not.
        case ambiguous
        case authentication
        case noBucket
        /// No node that could answer was reached before the deadline. A write was not carried out.
        case unreachable
        /// The deadline passed. A write was not carried out.
        case deadline
        /// Too many operations or bytes are pending in this client.
        case overloaded
        case closed
        /// The request is invalid and was not sent.
        case invalid
    }

    package let code: Code
    package internal(set) var vBucket: VBucketID?
    /// The node of the last attempt; nil if there was none.
    package internal(set) var node: SocketAddress?
    package internal(set) var attempts = 0
    /// The status of the last answer; nil if there was none.
    package internal(set) var status: UInt16?
    /// The attempts and the last failure, as a sentence.
    package let description: String

    init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }

    /// Whether the operation may have been carried out despite the error.
    package var isAmbiguous: Bool { code == .ambiguous }
}
