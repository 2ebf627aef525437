import Bytes
import DivanClient
import Foundation
import LinuxPlatform
import Seams
import TestSupport
import Testing
import Vocabulary
import Wire

/// Behaviour that one real node cannot show: changing maps, refusals, lost connections.
@Suite(.serialized) struct ScriptedTests {
    let world = LinuxEnvironment.make(reactors: 2, logLevel: .fault)

    private func with(
        _ nodes: [FakeNode],
        timeout: UInt64? = nil,
        polling: UInt64? = nil,
        _ change: ((inout ClientSettings) -> Void)? = nil,
        _ body: (Client) async throws -> Void
    ) async throws {
        var settings = ClientSettings(
            bootstrap: [nodes[0].address],
            bucket: "documents",
            user: "ann",
            password: "secret"
        )
        settings.allowsPlain = true
        settings.timeoutMilliseconds = timeout ?? settings.timeoutMilliseconds
        settings.pollMilliseconds = polling ?? settings.pollMilliseconds
        change?(&settings)
        let client = try await Client.open(settings, environment: world.environment)
        do {
            try await body(client)
        } catch { Issue.record(error) }
        await client.close()
        for node in nodes { node.close() }
        world.stop()
    }

    private func node(_ react: @escaping @Sendable (FakeNode.Received) -> FakeNode.Reaction) throws
        -> FakeNode
    {
        try FakeNode(world.environment.network, react)
    }

    private func milliseconds(_ body: () async throws -> Void) async rethrows -> Double {
        let start = ContinuousClock.now
        try await body()
        return (ContinuousClock.now - start) / .milliseconds(1)
    }

    // MARK: Maps

    @Test func refusalWithANewMapIsReroutedAtOnce() async throws {
        let map = Guarded<[UInt8]>([])
        let old = try node { _ in .answer(.notMyVBucket, value: map.withLock { $0 }) }
        let new = try node { _ in .answer(.success) }
        old.configure(MapText(rev: 1, ports: [old.port]))
        map.withLock { $0 = MapText(rev: 2, ports: [old.port, new.port]).all(on: 1).bytes }
        try await with([old, new]) { client in
            let time = try await milliseconds {
                for number in 0..<20 { try await client.set("key\(number)", [1]) }
            }
            #expect(time < 1_500)
        }
        #expect(old.requests.count == 1)
        #expect(new.requests.count == 20)
    }

    @Test func refusalWithAnOldMapMakesTheClientRequestANewerOne() async throws {
        let old = try node { request in
            .answer(.notMyVBucket, value: MapText(rev: 1, ports: [1]).bytes)
        }
        let new = try node { _ in .answer(.success) }
        old.configure(MapText(rev: 5, ports: [old.port]))
        try await with([old, new]) { client in
            let waiting = Task { try await client.set("key", [1]) }
            try await Task.sleep(for: .milliseconds(100))
            #expect(old.requests.count > 3)
            #expect(old.requests.count < 30)
            // The new map is neither in the refusals nor pushed: the client has to request it.
            old.configure(MapText(rev: 6, ports: [new.port]))
            _ = try await waiting.value
            #expect(new.requests.count == 1)
        }
    }

    @Test func pushedMapIsAppliedWithoutPolling() async throws {
        let old = try node { _ in .answer(.success) }
        let new = try node { _ in .answer(.success) }
        old.offer([.duplex, .clusterMapNotification])
        old.configure(MapText(rev: 1, ports: [old.port, new.port]).all(on: 0))
        try await with([old, new], polling: 100) { client in
            try await client.set("key", [1])
            old.push(MapText(rev: 2, ports: [old.port, new.port]).all(on: 1))
            try await Task.sleep(for: .milliseconds(600))
            try await client.set("key", [1])
            #expect(old.requests.count == 1)
            #expect(new.requests.count == 1)
            #expect(old.state.withLock { $0.configurationRequests } == 1)
        }
    }

    @Test func mapIsPolledIfNoNodePushesIt() async throws {
        let old = try node { _ in .answer(.success) }
        let new = try node { _ in .answer(.success) }
        old.configure(MapText(rev: 1, ports: [old.port]))
        try await with([old, new], polling: 200) { client in
            old.configure(MapText(rev: 2, ports: [new.port]))
            try await Task.sleep(for: .milliseconds(1_000))
            try await client.set("key", [1])
            #expect(old.requests.isEmpty)
            #expect(new.requests.count == 1)
        }
    }

    /// The map still names the old node, and its forward map the new one.
    @Test func refusedRequestIsSentByTheForwardMapAtOnce() async throws {
        let old = try node { _ in .answer(.notMyVBucket) }
        let new = try node { _ in .answer(.success) }
        var map = MapText(rev: 1, ports: [old.port, new.port]).all(on: 0)
        map.forward = Array(repeating: 1, count: 64)
        old.configure(map)
        new.configure(map)
        try await with([old, new]) { client in try await client.set("key", [1]) }
        #expect(old.requests.count == 1)
        #expect(new.requests.count == 1)
    }

    /// A new map no longer names a hanging node.
    @Test func readIsRecalledFromANodeThatLostItsCopy() async throws {
        let hung = try node { _ in .silence }
        let live = try node { request in .answer(.success, value: [request.opcode == .get ? 1 : 0])
        }
        let both = MapText(rev: 1, ports: [hung.port, live.port]).all(on: 0)
        live.offer([.duplex, .clusterMapNotification])
        live.configure(both)
        try await with([live, hung]) { client in
            let reading = Task { try await client.get("key") }
            let writing = Task { try await client.set("key", [1]) }
            while hung.requests.count < 2 { try await Task.sleep(for: .milliseconds(5)) }
            live.push(MapText(rev: 2, ports: [live.port]))
            let time = try await milliseconds {
                let found = try await reading.value
                #expect(found.value == [1])
            }
            #expect(time < 500)
            // The write may have been carried out, so the client must not report that it was not.
            let error = await #expect(throws: ClientError.self) { try await writing.value }
            #expect(error?.code == .ambiguous)
        }
    }

    // MARK: Refusals

    @Test func temporaryRefusalIsRetriedUntilSuccess() async throws {
        let busy = try node { request in
            .answer(request.number < 5 ? .temporaryFailure : .success)
        }
        busy.configure(MapText(rev: 1, ports: [busy.port]))
        try await with([busy]) { client in
            let result = try await client.set("key", [1])
            #expect(result.cas == CAS(77))
            #expect(result.token == nil)
        }
        #expect(busy.requests.count == 6)
    }

    @Test(arguments: [
        (Status.temporaryFailure, ClientError.Code.temporaryFailure), (.locked, .locked),
        (.syncWriteInProgress, .durableWriteInProgress), (.notMyVBucket, .deadline),
        (.noBucket, .noBucket),
    ])
    func retriesEndAtTheDeadlineWithAnErrorThatNamesThem(
        status: Status,
        code: ClientError.Code
    ) async throws {
        let busy = try node { _ in .answer(status) }
        busy.configure(MapText(rev: 1, ports: [busy.port]))
        try await with([busy], timeout: 300) { client in
            var error: ClientError?
            // On a busy machine the last attempt may be in flight at the deadline: its outcome is then
            // unknown, and the node may count it after the error does. Repeat until the deadline
            // falls into a back-off.
            var endedInBackOff: Bool {
                error?.code == code && error?.attempts == busy.requests.count
            }
            for _ in 0..<20 where !endedInBackOff {
                busy.clearRequests()
                let time = await milliseconds {
                    error = await failure(client) { $0.set("key".bytes, [1], done: $1) }
                }
                #expect(time > 250 && time < 5_000)
                if error?.code != code { #expect([.ambiguous, .deadline].contains(error?.code)) }
            }
            #expect(error?.code == code)
            #expect(error?.status == status.rawValue)
            #expect(error?.node == busy.address)
            #expect(error?.vBucket == VBucketID(ofKey: Array("key".utf8), count: 64))
            #expect((error?.attempts ?? 0) > 3)
            #expect(error?.description.contains("\(busy.requests.count) attempts") == true)
            #expect(error?.description.contains(status.name) == true)
        }
    }

    @Test func requestThatNeedsAMissingFeatureIsNotSent() async throws {
        let plain = try node { _ in .answer(.success) }
        plain.configure(MapText(rev: 1, ports: [plain.port]))
        try await with([plain]) { client in
            let error = await failure(client) {
                $0.set("key".bytes, [1], options: .durable(.majority), done: $1)
            }
            #expect(error?.code == .unsupported)
        }
        #expect(plain.requests.isEmpty)
    }

    // MARK: Connections that end

    /// The node closes the connection when it receives the first attempt of each kind.
    @Test func lostConnectionRetriesAReadAndMakesAWriteAmbiguous() async throws {
        let cut = try node { request in
            request.number % 2 == 0 ? .hangUp : .answer(.success, value: [5])
        }
        cut.configure(MapText(rev: 1, ports: [cut.port]))
        try await with([cut]) { client in
            #expect(try await client.get("key").value == [5])
            #expect(cut.requests.count == 2)
            let error = await failure(client) { $0.set("key".bytes, [1], done: $1) }
            #expect(error?.code == .ambiguous)
            #expect(error?.attempts == 1)
            #expect(cut.requests.count == 3)
            try await client.set("key", [1])
        }
    }

    @Test func unsentWriteIsSentOnceItsNodeIsReachable() async throws {
        let first = try node { _ in .answer(.success) }
        let late = Guarded<FakeNode?>(nil)
        let probe = try node { _ in .silence }
        let port = probe.port
        probe.close()
        first.configure(MapText(rev: 1, ports: [first.port, port]).all(on: 1))
        try await with([first]) { client in
            let writing = Task { try await client.set("key", [1]) }
            try await Task.sleep(for: .milliseconds(300))
            let node = try FakeNode(world.environment.network, port: port) { _ in
                .answer(.success)
            }
            late.withLock { $0 = node }
            _ = try await writing.value
            #expect(node.requests.count == 1)
            node.close()
        }
        #expect(first.requests.isEmpty)
    }

    @Test func operationOnAMissingNodeIsUnreachable() async throws {
        let first = try node { _ in .answer(.success) }
        let gone = try node { _ in .silence }
        let port = gone.port
        gone.close()
        first.configure(MapText(rev: 1, ports: [first.port, port]).all(on: 1))
        try await with([first], timeout: 300) { client in
            let error = await failure(client) { $0.set("key".bytes, [1], done: $1) }
            #expect(error?.code == .unreachable)
            #expect(error?.attempts == 0)
            #expect(error?.node?.port == port)
        }
    }

    /// A durable write may take long; the node still answers the client's NOOP.
    @Test func connectionOfANodeThatAnswersProbesIsKept() async throws {
        let isSilent = Guarded(true)
        let silent = try node { _ in
            isSilent.withLock { $0 } ? .silence : .answer(.success, value: [9])
        }
        silent.configure(MapText(rev: 1, ports: [silent.port]))
        let change: (inout ClientSettings) -> Void = { settings in
            settings.probeMilliseconds = 100
            settings.silenceMilliseconds = 400
            settings.timeoutMilliseconds = 900
        }
        try await with([silent], change) { client in
            let error = await failure(client) { $0.set("key".bytes, [1], done: $1) }
            #expect(error?.code == .ambiguous)
            #expect(silent.state.withLock { $0.sessions.count } == 1)
            isSilent.withLock { $0 = false }
            let found = try await client.get("key")
            #expect(found.value == [9])
        }
    }

    /// A connection that is given up makes the client ask for a map within the same check.
    @Test func openFailsIfNodeNeverAnswersLogin() async throws {
        let mute = try world.environment.network.listen(
            on: SocketAddress(host: "127.0.0.1", port: 0)
        ) { _ in ClosureHandler.sink() }
        defer { world.stop() }
        var settings = ClientSettings(
            bootstrap: [mute.address],
            bucket: "documents",
            user: "ann",
            password: "secret"
        )
        settings.connectMilliseconds = 300
        settings.openTimeoutMilliseconds = 1_500
        await #expect(throws: ClientError.self) {
            _ = try await Client.open(settings, environment: world.environment)
        }
        mute.close()
    }

    /// As with a stopped process or a cut cable, the connection stays open and nothing arrives.
    @Test func connectionOfASilentNodeIsClosed() async throws {
        let mute = try node { _ in .answer(.success, value: [9]) }
        mute.configure(MapText(rev: 1, ports: [mute.port]))
        let change: (inout ClientSettings) -> Void = { settings in
            settings.probeMilliseconds = 100
            settings.silenceMilliseconds = 400
            settings.connectMilliseconds = 300
            settings.timeoutMilliseconds = 10_000
        }
        try await with([mute], change) { client in
            mute.state.withLock { $0.isMute = true }
            let reading = Task { try await client.get("key") }
            var error: ClientError?
            let time = await milliseconds {
                error = await failure(client) { $0.set("key".bytes, [1], done: $1) }
            }
            #expect(error?.code == .ambiguous)
            #expect(error?.description.contains("no answer for") == true)
            #expect(time < 3_000)
            mute.state.withLock { $0.isMute = false }
            let found = try await reading.value
            #expect(found.value == [9])
            #expect(mute.state.withLock { $0.sessions.count } > 1)
        }
    }

    // MARK: Bounds

    @Test func operationsBeyondTheLimitAreRefused() async throws {
        let slow = try node { _ in .silence }
        slow.configure(MapText(rev: 1, ports: [slow.port]))
        let change: (inout ClientSettings) -> Void = { settings in
            settings.operationsMax = 10
            settings.pipelineMax = 4
            settings.timeoutMilliseconds = 400
        }
        try await with([slow], change) { client in
            let codes = await withTaskGroup(of: ClientError.Code?.self) { group in
                for number in 0..<15 {
                    group.addTask {
                        await failure(client) { $0.set("key\(number)".bytes, [1], done: $1) }?.code
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(codes.count { $0 == .overloaded } == 5)
            #expect(codes.count { $0 == .ambiguous } >= 4)
            #expect(codes.count { $0 == nil } == 0)
            #expect(slow.requests.count <= 10)
        }
    }

    @Test func closingEndsPendingOperations() async throws {
        let slow = try node { _ in .silence }
        slow.configure(MapText(rev: 1, ports: [slow.port]))
        try await with([slow]) { client in
            let writing = Task { try await client.set("key", [1]) }
            let reading = Task { try await client.get("key") }
            while slow.requests.count < 2 { try await Task.sleep(for: .milliseconds(5)) }
            await client.close()
            let lost = await #expect(throws: ClientError.self) { try await writing.value }
            #expect(lost?.code == .ambiguous)
            let over = await #expect(throws: ClientError.self) { try await reading.value }
            #expect(over?.code == .closed)
            // Later operations fail, and closing again has no effect.
            let late = await failure(client) { $0.get("key".bytes, done: $1) }
            #expect(late?.code == .closed)
            await client.close()
        }
    }
}
