import Bytes
import DivanClient
import Foundation
import LinuxPlatform
import Seams
import Testing
import Vocabulary
import Wire

/// What one real node cannot show: maps that change, refusals, connections that end in bad moments.
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

    private func node(_ react: @escaping @Sendable (FakeNode.Asked) -> FakeNode.Reaction) throws
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

    @Test func aRefusalWithANewMapLeadsToTheSecondNodeAtOnce() async throws {
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
        #expect(old.asked.count == 1)
        #expect(new.asked.count == 20)
    }

    @Test func anOldMapIsNotTakenAndTheNewOneIsAskedFor() async throws {
        let old = try node { asked in
            .answer(.notMyVBucket, value: MapText(rev: 1, ports: [1]).bytes)
        }
        let new = try node { _ in .answer(.success) }
        old.configure(MapText(rev: 5, ports: [old.port]))
        try await with([old, new]) { client in
            let waiting = Task { try await client.set("key", [1]) }
            try await Task.sleep(for: .milliseconds(100))
            #expect(old.asked.count > 3)
            #expect(old.asked.count < 30)
            // Not in the refusals, and nobody pushes it: only asking finds it.
            old.configure(MapText(rev: 6, ports: [new.port]))
            _ = try await waiting.value
            #expect(new.asked.count == 1)
        }
    }

    @Test func aPushedMapIsFollowedAndNobodyAsks() async throws {
        let old = try node { _ in .answer(.success) }
        let new = try node { _ in .answer(.success) }
        old.offer([.duplex, .clusterMapNotification])
        old.configure(MapText(rev: 1, ports: [old.port, new.port]).all(on: 0))
        try await with([old, new], polling: 100) { client in
            try await client.set("key", [1])
            old.push(MapText(rev: 2, ports: [old.port, new.port]).all(on: 1))
            try await Task.sleep(for: .milliseconds(600))
            try await client.set("key", [1])
            #expect(old.asked.count == 1)
            #expect(new.asked.count == 1)
            #expect(old.state.withLock { $0.configurationRequests } == 1)
        }
    }

    @Test func whereNobodyPushesTheMapIsPolled() async throws {
        let old = try node { _ in .answer(.success) }
        let new = try node { _ in .answer(.success) }
        old.configure(MapText(rev: 1, ports: [old.port]))
        try await with([old, new], polling: 200) { client in
            old.configure(MapText(rev: 2, ports: [new.port]))
            try await Task.sleep(for: .milliseconds(1_000))
            try await client.set("key", [1])
            #expect(old.asked.isEmpty)
            #expect(new.asked.count == 1)
        }
    }

    /// The map still names the old node, and says where things go: the second attempt goes there.
    @Test func aForwardMapSparesTheWait() async throws {
        let old = try node { _ in .answer(.notMyVBucket) }
        let new = try node { _ in .answer(.success) }
        var map = MapText(rev: 1, ports: [old.port, new.port]).all(on: 0)
        map.forward = Array(repeating: 1, count: 64)
        old.configure(map)
        new.configure(map)
        try await with([old, new]) { client in try await client.set("key", [1]) }
        #expect(old.asked.count == 1)
        #expect(new.asked.count == 1)
    }

    /// A node that hangs is left behind by the next map: what only reads does not wait for it.
    @Test func readsLeaveANodeThatLostItsCopy() async throws {
        let hung = try node { _ in .silence }
        let live = try node { asked in .answer(.success, value: [asked.opcode == .get ? 1 : 0]) }
        let both = MapText(rev: 1, ports: [hung.port, live.port]).all(on: 0)
        live.offer([.duplex, .clusterMapNotification])
        live.configure(both)
        try await with([live, hung]) { client in
            let reading = Task { try await client.get("key") }
            let writing = Task { try await client.set("key", [1]) }
            while hung.asked.count < 2 { try await Task.sleep(for: .milliseconds(5)) }
            live.push(MapText(rev: 2, ports: [live.port]))
            let time = try await milliseconds {
                let found = try await reading.value
                #expect(found.value == [1])
            }
            #expect(time < 500)
            // The write may have been carried out: nobody may say that it was not.
            let error = await #expect(throws: ClientError.self) { try await writing.value }
            #expect(error?.code == .ambiguous)
        }
    }

    // MARK: Refusals

    @Test func refusalsAreTriedAgainUntilTheyEnd() async throws {
        let busy = try node { asked in
            .answer(asked.number < 5 ? .temporaryFailure : .success)
        }
        busy.configure(MapText(rev: 1, ports: [busy.port]))
        try await with([busy]) { client in
            let result = try await client.set("key", [1])
            #expect(result.cas == CAS(77))
            #expect(result.token == nil)
        }
        #expect(busy.asked.count == 6)
    }

    @Test(arguments: [
        (Status.temporaryFailure, ClientError.Code.temporaryFailure), (.locked, .locked),
        (.syncWriteInProgress, .durableWriteInProgress), (.notMyVBucket, .deadline),
        (.noBucket, .noBucket),
    ])
    func theDeadlineEndsThemAndSaysWhatWasTried(
        status: Status,
        code: ClientError.Code
    ) async throws {
        let busy = try node { _ in .answer(status) }
        busy.configure(MapText(rev: 1, ports: [busy.port]))
        try await with([busy], timeout: 300) { client in
            var error: ClientError?
            // On a busy machine the last attempt may be under way at the deadline: its outcome is not
            // known then, and the node may count it after the error does. The case tested here ends
            // in a pause between two attempts.
            var endedInPause: Bool { error?.code == code && error?.attempts == busy.asked.count }
            for _ in 0..<20 where !endedInPause {
                busy.forgetAsked()
                let time = await milliseconds {
                    error = await failure { () async throws(ClientError) in
                        try await client.set("key", [1])
                    }
                }
                #expect(time > 250 && time < 5_000)
                if error?.code != code { #expect([.ambiguous, .deadline].contains(error?.code)) }
            }
            #expect(error?.code == code)
            #expect(error?.status == status.rawValue)
            #expect(error?.node == busy.address)
            #expect(error?.vBucket == VBucketID(ofKey: Array("key".utf8), count: 64))
            #expect((error?.attempts ?? 0) > 3)
            #expect(error?.description.contains("\(busy.asked.count) attempts") == true)
            #expect(error?.description.contains(status.name) == true)
        }
    }

    @Test func whatTheServerDoesNotOfferIsNotSent() async throws {
        let plain = try node { _ in .answer(.success) }
        plain.configure(MapText(rev: 1, ports: [plain.port]))
        try await with([plain]) { client in
            let error = await failure { () async throws(ClientError) in
                try await client.set("key", [1], .durable(.majority))
            }
            #expect(error?.code == .unsupported)
        }
        #expect(plain.asked.isEmpty)
    }

    // MARK: Connections that end

    /// The first attempt of each kind meets a connection that ends once the request has come.
    @Test func aCutConnectionCostsAReadATryAndAWriteItsCertainty() async throws {
        let cut = try node { asked in
            asked.number % 2 == 0 ? .hangUp : .answer(.success, value: [5])
        }
        cut.configure(MapText(rev: 1, ports: [cut.port]))
        try await with([cut]) { client in
            #expect(try await client.get("key").value == [5])
            #expect(cut.asked.count == 2)
            let error = await failure { () async throws(ClientError) in
                try await client.set("key", [1])
            }
            #expect(error?.code == .ambiguous)
            #expect(error?.attempts == 1)
            #expect(cut.asked.count == 3)
            try await client.set("key", [1])
        }
    }

    /// A write that waits for its node was never sent: it goes when the node comes.
    @Test func aWriteThatNeverLeftIsSentOnceItCan() async throws {
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
            #expect(node.asked.count == 1)
            node.close()
        }
        #expect(first.asked.isEmpty)
    }

    @Test func aNodeThatIsNotThereIsUnreachable() async throws {
        let first = try node { _ in .answer(.success) }
        let gone = try node { _ in .silence }
        let port = gone.port
        gone.close()
        first.configure(MapText(rev: 1, ports: [first.port, port]).all(on: 1))
        try await with([first], timeout: 300) { client in
            let error = await failure { () async throws(ClientError) in
                try await client.set("key", [1])
            }
            #expect(error?.code == .unreachable)
            #expect(error?.attempts == 0)
            #expect(error?.node?.port == port)
        }
    }

    /// A durable write may wait for long: a node that answers a NOOP meanwhile is well.
    @Test func aNodeThatOnlyWaitsIsKept() async throws {
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
            let error = await failure { () async throws(ClientError) in
                try await client.set("key", [1])
            }
            #expect(error?.code == .ambiguous)
            #expect(silent.state.withLock { $0.sessions.count } == 1)
            isSilent.withLock { $0 = false }
            let found = try await client.get("key")
            #expect(found.value == [9])
        }
    }

    /// A process that was stopped, or a cut cable: the connection stands and nothing comes.
    @Test func aSilentNodeIsHungUpOn() async throws {
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
                error = await failure { () async throws(ClientError) in
                    try await client.set("key", [1])
                }
            }
            #expect(error?.code == .ambiguous)
            #expect(error?.description.contains("said nothing for") == true)
            #expect(time < 3_000)
            mute.state.withLock { $0.isMute = false }
            let found = try await reading.value
            #expect(found.value == [9])
            #expect(mute.state.withLock { $0.sessions.count } > 1)
        }
    }

    // MARK: Bounds

    @Test func tooMuchAtOnceIsRefusedAndTheRestIsServed() async throws {
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
                        await failure { () async throws(ClientError) in
                            try await client.set("key\(number)", [1])
                        }?.code
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            #expect(codes.count { $0 == .overloaded } == 5)
            #expect(codes.count { $0 == .ambiguous } >= 4)
            #expect(codes.count { $0 == nil } == 0)
            #expect(slow.asked.count <= 10)
        }
    }

    @Test func closingEndsWhatIsUnderWay() async throws {
        let slow = try node { _ in .silence }
        slow.configure(MapText(rev: 1, ports: [slow.port]))
        try await with([slow]) { client in
            let writing = Task { try await client.set("key", [1]) }
            let reading = Task { try await client.get("key") }
            while slow.asked.count < 2 { try await Task.sleep(for: .milliseconds(5)) }
            await client.close()
            let lost = await #expect(throws: ClientError.self) { try await writing.value }
            #expect(lost?.code == .ambiguous)
            let over = await #expect(throws: ClientError.self) { try await reading.value }
            #expect(over?.code == .closed)
            // And so is what comes later, closing included.
            let late = await failure { () async throws(ClientError) in try await client.get("key") }
            #expect(late?.code == .closed)
            await client.close()
        }
    }
}
