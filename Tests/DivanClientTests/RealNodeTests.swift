import Bytes
import DivanClient
import Foundation
import LinuxPlatform
import Seams
import Testing
import Vocabulary
import Wire

/// The client against a real data service, over loopback.
@Suite(.serialized) struct RealNodeTests {
    private func with(
        _ buckets: [(name: String, type: BucketType)] = [("documents", .ephemeral)],
        _ body: (RealNode) async throws -> Void
    ) async throws {
        let node = try RealNode(buckets: buckets)
        do { try await body(node) } catch { Issue.record(error) }
        await node.remove()
    }

    /// Expects an operation to fail with `code`.
    ///
    /// Its closure is no argument of `#expect`: Swift 6.3.1 gives closures in a macro's arguments the
    /// names of others in the function, and calls the wrong one.
    private func expect<Value: Sendable>(
        _ code: ClientError.Code,
        from client: Client,
        _ begin: (Client, @escaping Client.Handler<Value>) -> Void,
        at location: SourceLocation = #_sourceLocation
    ) async {
        let found = await failure(client, begin)?.code
        #expect(found == code, sourceLocation: location)
    }

    @Test func storedDocumentIsReadBackUnchanged() async throws {
        try await with { node in
            let client = try await node.client()
            var options = WriteOptions()
            options.flags = 0x0200_0006
            let json = Array("{\"a\":1}".utf8)
            let stored = try await client.set("one", json, options)
            let found = try await client.get("one")
            #expect(
                found == Document(value: json, flags: 0x0200_0006, cas: stored.cas, isJSON: true)
            )
            #expect(stored.token?.vBucket == VBucketID(ofKey: Array("one".utf8), count: 64))
            try await client.set("raw", [0xff, 0])
            #expect(try await client.get("raw").isJSON == false)
            #expect(try await client.get("raw").value == [0xff, 0])
            await client.close()
        }
    }

    @Test func writeOperationsCheckExistenceAndCAS() async throws {
        try await with { node in
            let client = try await node.client()
            await expect(.notFound, from: client) { $0.get("k".bytes, done: $1) }
            await expect(.notFound, from: client) { $0.replace("k".bytes, [1], done: $1) }
            await expect(.notFound, from: client) { $0.append("k".bytes, [1], done: $1) }
            let first = try await client.perform { $0.add("k".bytes, [1], done: $1) }
            await expect(.exists, from: client) { $0.add("k".bytes, [2], done: $1) }
            let second = try await client.perform {
                $0.replace("k".bytes, [2], options: .ifUnchanged(since: first.cas), done: $1)
            }
            await expect(.exists, from: client) {
                $0.set("k".bytes, [3], options: .ifUnchanged(since: first.cas), done: $1)
            }
            #expect(second.cas > first.cas)
            try await client.perform { $0.append("k".bytes, [3], done: $1) }
            try await client.perform { $0.prepend("k".bytes, [1], done: $1) }
            #expect(try await client.get("k").value == [1, 2, 3])
            try await client.perform { $0.delete("k".bytes, done: $1) }
            await expect(.notFound, from: client) { $0.delete("k".bytes, done: $1) }
            await client.close()
        }
    }

    /// The server refuses each write while another one is in progress.
    ///
    /// The client retries it when that one ends, not after a back-off.
    @Test func durableWritesOfOneDocumentFollowEachOtherWithoutBackOff() async throws {
        try await with { node in
            let client = try await node.client()
            let start = ContinuousClock.now
            let ended = try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<100 as Range<UInt8> {
                    group.addTask {
                        try await client.set("busy", [number], .durable(.majority))
                    }
                }
                var ended = 0
                for try await _ in group { ended += 1 }
                return ended
            }
            #expect(ended == 100)
            // With a back-off of 100 ms for each it would take ten seconds.
            #expect(ContinuousClock.now - start < .seconds(8))
            // Another document is not affected.
            try await client.set("calm", [1], .durable(.majority))
            #expect(try await client.get("busy").value.count == 1)
            await client.close()
        }
    }

    @Test func countersLocksAndExpiryWork() async throws {
        try await with { node in
            let client = try await node.client()
            await expect(.notFound, from: client) { $0.increment("n".bytes, done: $1) }
            for (delta, sum) in [(5, 10), (5, 15), (-20, 0)] as [(Int64, UInt64)] {
                let counter = try await client.perform {
                    $0.increment("n".bytes, by: delta, initial: 10, done: $1)
                }
                #expect(counter.value == sum)
            }
            try await client.set("text", Array("x".utf8))
            await expect(.notANumber, from: client) { $0.increment("text".bytes, done: $1) }
            let locked = try await client.perform {
                $0.getAndLock("n".bytes, seconds: 30, done: $1)
            }
            var brief = WriteOptions()
            brief.timeout = .milliseconds(2_000)
            await expect(.locked, from: client) { [brief] in
                $0.set("n".bytes, [1], options: brief, done: $1)
            }
            await expect(.locked, from: client) { $0.unlock("n".bytes, cas: CAS(5), done: $1) }
            // A write waits for the lock, and succeeds after the unlock.
            let waiting = Task { try await client.set("n", [7]) }
            try await Task.sleep(for: .milliseconds(50))
            try await client.perform { $0.unlock("n".bytes, cas: locked.cas, done: $1) }
            _ = try await waiting.value
            #expect(try await client.get("n").value == [7])
            await expect(.notLocked, from: client) {
                $0.unlock("n".bytes, cas: locked.cas, done: $1)
            }
            try await client.perform { $0.touch("n".bytes, .at(1), done: $1) }
            await expect(.notFound, from: client) { $0.get("n".bytes, done: $1) }
            var options = WriteOptions()
            // Long enough for the next request on a busy machine.
            options.expiry = .afterSeconds(3)
            try await client.set("brief", [1], options)
            let touched = try await client.perform {
                $0.getAndTouch("brief".bytes, .afterSeconds(40 * 86_400), done: $1)
            }
            #expect(touched.value == [1])
            try await Task.sleep(for: .milliseconds(4_100))
            #expect(try await client.get("brief").value == [1])
            await client.close()
        }
    }

    @Test func invalidRequestIsNotSent() async throws {
        try await with { node in
            let client = try await node.client()
            let long = String(repeating: "k", count: 251)
            await expect(.invalid, from: client) { $0.get("".bytes, done: $1) }
            await expect(.invalid, from: client) { $0.get(long.bytes, done: $1) }
            let huge = [UInt8](repeating: 0, count: (20 << 20) + 1)
            await expect(.tooBig, from: client) { $0.set("k".bytes, huge, done: $1) }
            // The maximal value, several times on one connection.
            let large = [UInt8](repeating: 7, count: 20 << 20)
            for round in 0..<3 {
                try await client.set("large\(round)", large)
                #expect(try await client.get("large\(round)").value == large)
            }
            await client.close()
        }
    }

    @Test func bucketsAreSeparateAndAMissingOneIsReported() async throws {
        try await with([("one", .ephemeral), ("two", .persistent)]) { node in
            let one = try await node.client("one")
            let two = try await node.client("two")
            try await one.set("k", [1])
            try await two.set("k", [2])
            #expect(try await one.get("k").value == [1])
            #expect(try await two.get("k").value == [2])
            let wrong = await failure { () async throws(ClientError) in
                try await node.client("one", password: "guess")
            }
            #expect(wrong?.code == .authentication)
            #expect(wrong?.description.contains("login of Administrator") == true)
            #expect(wrong?.description.contains("guess") == false)
            let missing = await failure { () async throws(ClientError) in
                try await node.client("three")
            }
            #expect(missing?.code == .noBucket)
            #expect(missing?.description.contains("bucket three") == true)
            await one.close()
            await two.close()
        }
    }

    @Test func openingFailsAtItsDeadlineWithoutANode() async throws {
        try await with { node in
            let error = await failure { () async throws(ClientError) in
                try await node.client { settings in
                    settings.bootstrap = [SocketAddress(host: "127.0.0.1", port: 1)]
                    settings.openTimeoutMilliseconds = 300
                }
            }
            #expect(error?.code == .unreachable)
            #expect(error?.description.contains("127.0.0.1:1") == true)
            // One bootstrap node that answers is enough.
            let client = try await node.client { settings in
                settings.bootstrap.insert(SocketAddress(host: "127.0.0.1", port: 1), at: 0)
                settings.bootstrap.insert(SocketAddress(host: "no.such.host", port: 1), at: 0)
            }
            try await client.set("k", [1])
            await client.close()
        }
    }

    /// A node is restarted while operations are pending.
    @Test func restartLosesNoAcknowledgedWrite() async throws {
        let first = try RealNode(buckets: [("documents", .persistent)])
        let outside = try RealNode(buckets: [])
        var settings = ClientSettings(
            bootstrap: [first.address],
            bucket: "documents",
            user: "Administrator",
            password: "secret"
        )
        settings.timeoutMilliseconds = 5_000
        let client = try await Client.open(settings, environment: outside.world.environment)
        let isOver = Guarded(false)
        let writer = Task {
            var known: [String: Set<[UInt8]>] = [:]
            var ambiguous = 0
            var round = 0
            while !isOver.withLock({ $0 }) {
                round += 1
                let (key, value) = ("key\(round % 50)", Array("\(round)".utf8))
                do throws(ClientError) {
                    try await client.set(key, value)
                    known[key] = [value]
                } catch {
                    #expect(error.code == .ambiguous, "\(error)")
                    ambiguous += 1
                    known[key, default: []].insert(value)
                }
            }
            return (known, ambiguous, round)
        }
        try await Task.sleep(for: .milliseconds(300))
        await first.stop()
        let second = try RealNode(
            directory: first.directory,
            port: first.address.port,
            buckets: [("documents", .persistent)]
        )
        try await Task.sleep(for: .milliseconds(700))
        isOver.withLock { $0 = true }
        let (known, ambiguous, rounds) = await writer.value
        #expect(rounds > 100)
        // One caller has at most one write under way when the connection ends.
        #expect(ambiguous <= 1)
        for (key, values) in known {
            let value = try await client.get(key).value
            #expect(values.contains(value), "\(key)")
        }
        await client.close()
        await second.remove()
        await outside.remove()
    }
}
