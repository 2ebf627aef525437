internal import Bytes
package import Seams

/// One bucket of a cluster, seen from outside: our own smart client.
///
/// It routes every operation by the map to the node that has the key's vBucket, follows the map as
/// it changes, and tries again what is safe to try again, until the operation's deadline. It runs
/// over the seams, so that a simulation runs the very client that programs use.
///
///     let client = try await Client.open(settings, environment: world.environment)
///     try await client.set("greeting", Array("\"hello\"".utf8))
///     let document = try await client.get("greeting")
///     await client.close()
///
/// Every operation has two forms: one with a callback, which is called on the client's lane, and
/// one that is `async`.
///
/// - Every operation ends, exactly once, by its deadline.
/// - A write whose outcome nobody knows ends as `ambiguous`, never as anything else.
package final class Client: Sendable {
    package typealias Handler<Value> = @Sendable (Result<Value, ClientError>) -> Void

    let core: ClientCore
    private let ownsLane: Bool
    /// Set before a lane of our own ends: what is posted later would never run.
    private let hasStopped = Guarded(false)

    /// A client that does nothing before `open`.
    ///
    /// - Parameters:
    ///   - settings: Where to begin, as whom, and how patiently.
    ///   - environment: The world.
    ///   - lane: Where everything runs and callbacks are called; nil for a lane of its own.
    package init(_ settings: ClientSettings, environment: Environment, lane: (any Lane)? = nil) {
        ownsLane = lane == nil
        core = ClientCore(
            settings,
            environment: environment,
            lane: lane ?? environment.lanes.makeLane("client")
        )
    }

    // MARK: Life

    /// Opens the bucket: calls `done` once there is a map, or when there will be none.
    ///
    /// Operations may be asked for at once; they wait for the map.
    package func open(_ done: @escaping Handler<Void>) {
        let isTaken = onLane { [core] in core.open(done) }
        if !isTaken { done(.failure(Client.closed)) }
    }

    /// Ends all operations and connections, then calls `done`; for clients on a given lane.
    ///
    /// Writes that had left and were not answered end as ambiguous.
    package func close(_ done: @escaping @Sendable () -> Void) {
        let isTaken = onLane { [core] in core.close(done) }
        if !isTaken { done() }
    }

    /// A client with an open bucket.
    package static func open(
        _ settings: ClientSettings,
        environment: Environment
    ) async throws(ClientError) -> Client {
        let client = Client(settings, environment: environment)
        let result = await withCheckedContinuation { waiter in
            client.open { waiter.resume(returning: $0) }
        }
        do throws(ClientError) {
            try result.get()
        } catch {
            await client.close()
            throw error
        }
        return client
    }

    /// Ends all operations, connections, and the lane if it is the client's own; not called from it.
    package func close() async {
        await withCheckedContinuation { waiter in
            close { waiter.resume() }
        }
        guard ownsLane else { return }
        let isFirst = hasStopped.withLock { hasStopped in
            defer { hasStopped = true }
            return !hasStopped
        }
        if isFirst { core.lane.stop() }
    }

    /// What the client knows of the cluster at this moment.
    package func look(_ done: @escaping @Sendable (ClusterMap?) -> Void) {
        let isTaken = onLane { [core] in done(core.cache.current) }
        if !isTaken { done(nil) }
    }

    private static let closed = ClientError(.closed, "the client is closed")

    /// Has `work` done on the lane; false where the lane has ended.
    private func onLane(_ work: @escaping @Sendable () -> Void) -> Bool {
        // Under the lock: what a lane has taken before it is stopped, it does.
        hasStopped.withLock { hasStopped in
            if !hasStopped { core.lane.post(work) }
            return !hasStopped
        }
    }

    // MARK: One operation

    /// Carries out a request and turns its answer into a result.
    func perform<Value: Sendable>(
        _ request: Request,
        _ patience: Patience,
        _ handler: @escaping Handler<Value>,
        _ read: @escaping @Sendable (Operation.Reply) throws(ClientError) -> Value
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
        let timeout = timeout(request, patience)
        let isTaken = onLane { [core] in
            if let refusal = request.refusal { return complete(.failure(refusal)) }
            core.submit(request, timeout: timeout, complete)
        }
        if !isTaken { complete(.failure(Client.closed)) }
    }

    private func timeout(_ request: Request, _ patience: Patience) -> UInt64 {
        let settings = core.settings
        let usual =
            request.durability == nil
            ? settings.timeoutMilliseconds : settings.durableTimeoutMilliseconds
        return (patience.milliseconds ?? usual) * 1_000_000
    }
}

/// How long an operation may take with all its attempts.
package struct Patience: Sendable {
    /// Nil for what the client's settings say.
    package let milliseconds: UInt64?

    package static let usual = Patience(milliseconds: nil)

    package static func milliseconds(_ count: UInt64) -> Patience { Patience(milliseconds: count) }
}
