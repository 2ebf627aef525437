import Bytes
import DataService
import TestWorld
import Testing
import Vocabulary

/// Operations without a connection have the same effects on the bucket as clients' commands.
@Suite struct DocumentOperationsTests {
    let world = TestWorld()

    private func open(_ type: BucketType = .ephemeral, quota: UInt64 = 1 << 30) throws -> OpenBucket
    {
        try world.service.open(TestWorld.settings("guests", type, quota: quota))
        return try #require(world.service.bucket(named: "guests"))
    }

    private func perform(_ action: DocumentAction, _ key: String) -> DocumentOutcome? {
        let outcome = Guarded<DocumentOutcome?>(nil)
        world.service.perform(action, on: Array(key.utf8), inBucket: "guests") { found in
            outcome.withLock { $0 = found }
        }
        world.settle()
        return outcome.withLock { $0 }
    }

    private func update(
        _ key: String,
        cas: UInt64 = 0,
        _ transform: @escaping DocumentTransform
    ) -> DocumentOutcome? {
        let outcome = Guarded<DocumentOutcome?>(nil)
        world.service.update(
            Array(key.utf8),
            cas: CAS(cas),
            inBucket: "guests",
            transform
        ) { found in outcome.withLock { $0 = found } }
        world.settle()
        return outcome.withLock { $0 }
    }

    private static func write(_ value: String, flags: UInt32 = 0) -> DocumentAction {
        .write(value: Array(value.utf8), flags: flags, expiry: 0, preservesExpiry: false)
    }

    /// Appends bytes to the current value.
    private static func appending(_ text: String) -> DocumentTransform {
        { document, writer in
            if let document { writer.append(document.value) }
            writer.append(text: text)
            return .store(DocumentChange.Fields())
        }
    }

    // MARK: Effects on the bucket

    @Test func operationsWithoutConnectionAreCountedAsCommandsAre() throws {
        let counters = try open().counters
        #expect(perform(.read, "key") == .refused(.notFound))
        guard case .written = perform(Self.write("value"), "key") else {
            Issue.record("the write was refused")
            return
        }
        guard case .found(let copy) = perform(.read, "key") else {
            Issue.record("the document is not found")
            return
        }
        #expect(copy.value == Array("value".utf8))
        _ = perform(.delete(), "key")
        let totals = [
            Statistic.gets, .getHits, .getMisses, .sets, .deletes, .temporaryFailures,
        ].map { counters.total($0) }
        #expect(totals == [2, 1, 1, 1, 1, 0])
    }

    @Test func writeWithUnmetPreconditionIsRefused() throws {
        _ = try open()
        func write(_ text: String, _ precondition: Precondition<CAS>) -> DocumentOutcome? {
            let value = Array(text.utf8)
            return perform(
                .write(
                    value: value,
                    flags: 0,
                    expiry: 0,
                    preservesExpiry: false,
                    precondition: precondition
                ),
                "key"
            )
        }
        #expect(write("1", .version(CAS(1))) == .refused(.notFound))
        guard case .written(let first) = write("1", .absent) else {
            Issue.record("the document is not created")
            return
        }
        #expect(write("2", .absent) == .refused(.exists))
        guard case .written(let second) = write("2", .version(first.cas)) else {
            Issue.record("the present version is not replaced")
            return
        }
        #expect(write("3", .version(first.cas)) == .refused(.exists))
        #expect(perform(.delete(cas: first.cas), "key") == .refused(.exists))
        guard case .found(let copy) = perform(.read, "key") else {
            Issue.record("the document is not found")
            return
        }
        #expect(copy.value == Array("2".utf8))
        guard case .written = perform(.delete(cas: second.cas), "key") else {
            Issue.record("the present version is not deleted")
            return
        }
    }

    @Test func writeWithoutConnectionIsStoredOncePagerHasMadeRoom() throws {
        let bucket = try open(.persistent, quota: 4 << 20)
        let filler = String(repeating: "x", count: 100_000)
        // Nothing can be ejected before it is persisted.
        world.lanes.hold("writer")
        var count = 0
        var last: DocumentOutcome?
        repeat {
            count += 1
            last = perform(Self.write(filler), "key\(count)")
        } while count < 1_000 && last != .refused(.temporaryFailure)
        #expect(count < 1_000)
        #expect(bucket.counters.total(.temporaryFailures) == 1)
        #expect(bucket.counters.total(.ejections) == 0)
        world.lanes.release("writer")
        world.pass(milliseconds: 2_000)
        #expect(bucket.counters.total(.ejections) > 0)
        guard case .written = perform(Self.write(filler), "key\(count)") else {
            Issue.record("the pager made no room")
            return
        }
    }

    // MARK: Updates

    @Test func updateOfMissingDocumentStoresWhatTheTransformWrote() throws {
        _ = try open()
        guard case .written(let version) = update("key", Self.appending("{}")) else {
            Issue.record("the update was refused")
            return
        }
        let reply = try #require(world.client(of: "guests").ask(Ask.get("key")).first)
        #expect(reply.text == "{}")
        #expect(reply.cas == version.cas.value)
        #expect(reply.datatype == 1)
    }

    @Test func updateKeepsFlagsThatTheTransformDoesNotNameAndTheExpiryIfAsked() throws {
        _ = try open()
        let client = world.client(of: "guests")
        _ = client.ask(Ask.set("key", "a", expiry: 1_000))
        _ = update("key") { document, writer in
            if let document { writer.append(document.value) }
            writer.append(text: "b")
            var fields = DocumentChange.Fields()
            fields.preservesExpiry = true
            return .store(fields)
        }
        guard case .found(let copy) = perform(.read, "key") else {
            Issue.record("the document is gone")
            return
        }
        #expect(copy.value == Array("ab".utf8))
        #expect(copy.meta.flags == 7)
        #expect(copy.meta.expiry > world.time.seconds + 900)
        _ = update("key") { _, writer in
            writer.append(text: "c")
            return .store(DocumentChange.Fields(flags: 9, expiry: 0))
        }
        guard case .found(let changed) = perform(.read, "key") else {
            Issue.record("the document is gone")
            return
        }
        #expect(changed.meta.flags == 9)
        #expect(changed.meta.expiry == 0)
    }

    @Test func transformThatKeepsOrDeletesStoresNoValue() throws {
        let bucket = try open()
        let client = world.client(of: "guests")
        let cas = try #require(client.ask(Ask.set("key", "a")).first).cas
        let sets = bucket.counters.total(.sets)
        #expect(update("key") { _, _ in .keep } == .unchanged)
        #expect(client.ask(Ask.get("key")).map(\.cas) == [cas])
        #expect(bucket.counters.total(.sets) == sets)
        guard case .written = update("key", { _, _ in .delete }) else {
            Issue.record("the update was refused")
            return
        }
        #expect(client.ask(Ask.get("key")).map(\.status) == [1])
        #expect(update("key") { _, _ in .delete } == .refused(.notFound))
    }

    @Test func updateIsRefusedForStaleCASOrLock() throws {
        let bucket = try open()
        let client = world.client(of: "guests")
        let cas = try #require(client.ask(Ask.set("key", "a")).first).cas
        #expect(update("none", cas: 5, Self.appending("x")) == .refused(.notFound))
        #expect(update("key", cas: cas + 1, Self.appending("x")) == .refused(.exists))
        #expect(bucket.counters.total(.casMismatches) == 1)
        guard case .written = update("key", cas: cas, Self.appending("b")) else {
            Issue.record("the current CAS was refused")
            return
        }
        let lock = try #require(client.ask(Ask.on(0x94, "key", extras: big(UInt32(15)))).first)
        #expect(update("key", Self.appending("x")) == .refused(.locked))
        guard case .written = update("key", cas: lock.cas, Self.appending("c")) else {
            Issue.record("the lock's CAS was refused")
            return
        }
        #expect(client.ask(Ask.get("key")).map(\.text) == ["abc"])
    }

    @Test(arguments: [10, Limits.lockedTransformBytesMax + 1])
    func updateFetchesEjectedValueFirst(_ count: Int) throws {
        _ = try open(.persistent)
        let client = world.client(of: "guests")
        let text = String(repeating: "v", count: count)
        _ = client.ask(Ask.set("key", text))
        world.pass(milliseconds: 500)
        #expect(world.eject("key", from: "guests"))
        guard case .written = update("key", Self.appending("!")) else {
            Issue.record("the update was refused")
            return
        }
        #expect(client.ask(Ask.get("key")).map(\.text) == [text + "!"])
    }

    @Test func updateBeyondSizeLimitIsRefused() throws {
        _ = try open()
        let client = world.client(of: "guests")
        _ = client.ask(Ask.set("key", "a"))
        let outcome = update("key") { _, writer in
            for _ in 0...Limits.valueBytesMax >> 20 {
                writer.append([UInt8](repeating: 120, count: 1 << 20))
            }
            return .store(DocumentChange.Fields())
        }
        #expect(outcome == .refused(.tooLarge))
        #expect(client.ask(Ask.get("key")).map(\.text) == ["a"])
    }

    // MARK: Large values are transformed without the lock

    private static let large = String(repeating: "v", count: Limits.lockedTransformBytesMax + 1)

    /// Changes the document from another writer during the first `races` transforms.
    private func race(_ races: Int, cas: UInt64 = 0) -> (outcome: DocumentOutcome?, calls: Int) {
        let calls = Guarded(0)
        let rivals = Guarded<[Client]>([world.client(of: "guests")])
        let outcome = update("key", cas: cas) { document, writer in
            let call = calls.withLock { calls in
                calls += 1
                return calls
            }
            if let document { writer.append(document.value) }
            writer.append(text: "!")
            if call <= races {
                rivals.withLock { $0[0].send(Ask.set("key", Self.large + "\(call)")) }
            }
            return .store(DocumentChange.Fields())
        }
        return (outcome, calls.withLock { $0 })
    }

    @Test func updateThatLosesRaceIsRetriedWithNewVersion() throws {
        let bucket = try open()
        let client = world.client(of: "guests")
        _ = client.ask(Ask.set("key", Self.large))
        let (outcome, calls) = race(2)
        guard case .written = outcome else {
            Issue.record("the update ended with \(String(describing: outcome))")
            return
        }
        #expect(calls == 3)
        #expect(client.ask(Ask.get("key")).map(\.text) == [Self.large + "2!"])
        // No client named a CAS.
        #expect(bucket.counters.total(.casMismatches) == 0)
    }

    @Test func updateWithCASIsNotRetried() throws {
        let bucket = try open()
        let client = world.client(of: "guests")
        let cas = try #require(client.ask(Ask.set("key", Self.large)).first).cas
        let (outcome, calls) = race(1, cas: cas)
        #expect(outcome == .refused(.exists))
        #expect(calls == 1)
        #expect(bucket.counters.total(.casMismatches) == 1)
        #expect(client.ask(Ask.get("key")).map(\.text) == [Self.large + "1"])
    }

    /// Without a CAS there is no mismatch to report: a client gets a temporary failure.
    @Test func updateThatLosesEveryRaceFailsAndMayBeRetried() throws {
        _ = try open()
        _ = world.client(of: "guests").ask(Ask.set("key", Self.large))
        let (outcome, calls) = race(.max)
        guard case .failed(let reason) = outcome else {
            Issue.record("the update ended with \(String(describing: outcome))")
            return
        }
        #expect(reason.hasSuffix("Retry."))
        #expect(calls == Limits.updateAttemptsMax)
    }

    // MARK: Durable buckets

    @Test(arguments: [10, Limits.lockedTransformBytesMax + 1])
    func updateWithMinimumDurabilityIsWrittenOnceCommitted(_ count: Int) throws {
        var settings = TestWorld.settings("guests", .persistent)
        settings.minimumDurability = .persistToMajority
        let map = DurableTests.map([1], copies: 1)
        try world.service.open(settings, map, as: NodeNumber(1), isNew: true)
        guard case .written = perform(Self.write(String(repeating: "a", count: count)), "key")
        else {
            Issue.record("the write was refused")
            return
        }
        world.lanes.hold("writer")
        #expect(update("key", Self.appending("b")) == nil)
        world.lanes.release("writer")
        world.pass(milliseconds: 500)
        guard case .found(let copy) = perform(.read, "key") else {
            Issue.record("the document is gone")
            return
        }
        #expect(copy.value.last == UInt8(ascii: "b"))
        #expect(copy.value.count == count + 1)
    }

    @Test func durableWriteWithTooFewCopiesIsRefusedAsImpossible() throws {
        var settings = TestWorld.settings("guests", .persistent)
        settings.minimumDurability = .majority
        let map = DurableTests.map([1], copies: 2)
        try world.service.open(settings, map, as: NodeNumber(1), isNew: true)
        #expect(perform(Self.write("value"), "key") == .refused(.durabilityImpossible))
        #expect(update("key", Self.appending("a")) == .refused(.durabilityImpossible))
        #expect(perform(.read, "key") == .refused(.notFound))
    }
}
