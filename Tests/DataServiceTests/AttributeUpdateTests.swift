import Bytes
import DataService
import Engine
import TestWorld
import Testing
import Vocabulary

/// Updates and clients' writes of documents and tombstones with extended attributes.
@Suite struct AttributeUpdateTests {
    let world = TestWorld()

    private func open(_ type: BucketType = .ephemeral) throws {
        try world.service.open(TestWorld.settings("guests", type, quota: 1 << 30))
    }

    private func perform(_ action: DocumentAction) -> DocumentOutcome? {
        let outcome = Guarded<DocumentOutcome?>(nil)
        world.service.perform(action, on: Array("key".utf8), inBucket: "guests") { found in
            outcome.withLock { $0 = found }
        }
        world.settle()
        return outcome.withLock { $0 }
    }

    @discardableResult
    private func update(
        cas: CAS = .none,
        includesDeleted: Bool = false,
        _ transform: @escaping DocumentTransform
    ) -> DocumentOutcome? {
        let outcome = Guarded<DocumentOutcome?>(nil)
        world.service.update(
            Array("key".utf8),
            cas: cas,
            inBucket: "guests",
            includesDeleted: includesDeleted,
            transform
        ) { found in outcome.withLock { $0 = found } }
        world.settle()
        return outcome.withLock { $0 }
    }

    /// Stores a whole value with attributes.
    private static func storing(
        _ value: [UInt8],
        isDeleted: Bool = false,
        macros: [MacroPatch] = []
    ) -> DocumentTransform {
        { _, writer in
            writer.append(value)
            var fields = DocumentChange.Fields(
                datatype: .xattr,
                isDeleted: isDeleted,
                attributes: .replace
            )
            fields.macros = macros
            return .store(fields)
        }
    }

    private static func value(_ names: [String], body: String = "") -> [UInt8] {
        TestWorld.stored(names.map { (key: $0, value: "1") }, body: body)
    }

    private func version(_ outcome: DocumentOutcome?) throws -> DocumentVersion {
        guard case .written(let version) = outcome else {
            Issue.record("the update ended with \(String(describing: outcome))")
            throw CancellationError()
        }
        return version
    }

    /// The names of the attributes of the stored version, then its body.
    private func stored() throws -> String? {
        try world.find("key").flatMap { found in
            found.value.map { value in
                value.withUnsafeBytes { buffer in
                    let view = ByteView(buffer)
                    let isPlain = !found.datatype.contains(.xattr)
                    let names = isPlain ? [] : XattrBlob(stored: view).map(\.key.text)
                    let kind = found.isDeleted ? "tombstone" : "document"
                    let body = XattrBlob.body(of: view, found.datatype).text
                    return "\(kind)[\(names.joined(separator: ","))]\(body)"
                }
            }
        }
    }

    // MARK: Macros

    /// An attribute with two places, and their offsets in the stored value.
    private static let macros = [
        MacroPatch(offset: 16, kind: .cas), .init(offset: 37, kind: .seqno),
    ]

    private static func withPlaces(body: String) -> [UInt8] {
        let places = #"["\#(MacroPatch.placeholder)","\#(MacroPatch.placeholder)"]"#
        return TestWorld.stored([(key: "_sync", value: places)], body: body)
    }

    private static func expanded(cas: CAS, seqno: UInt64) -> String {
        func digits(_ bytes: [UInt8]) -> String {
            bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
        }
        let littleEndian = withUnsafeBytes(of: cas.value.littleEndian) { digits(Array($0)) }
        let bigEndian = withUnsafeBytes(of: seqno.bigEndian) { digits(Array($0)) }
        return #"["0x\#(littleEndian)","0x\#(bigEndian)"]"#
    }

    private func syncAttribute() throws -> String? {
        try world.find("key")?.value?.withUnsafeBytes { buffer in
            XattrBlob(stored: ByteView(buffer)).first { _ in true }?.value.text
        }
    }

    @Test(arguments: [10, Limits.lockedTransformBytesMax + 1])
    func macrosBecomeTheNumbersOfTheStoredVersion(_ count: Int) throws {
        try open()
        let body = String(repeating: "b", count: count)
        _ = world.client(of: "guests").ask(Ask.set("key", body))
        let value = Self.withPlaces(body: body)
        let version = try version(update(Self.storing(value, macros: Self.macros)))
        let expected = Self.expanded(cas: version.cas, seqno: version.seqno.value)
        #expect(try syncAttribute() == expected)
        #expect(try stored() == "document[_sync]\(body)")
    }

    @Test func seqnoMacroOfDurableWriteNamesThePrepare() throws {
        var settings = TestWorld.settings("guests", .persistent)
        settings.minimumDurability = .majority
        let map = DurableTests.map([1], copies: 1)
        try world.service.open(settings, map, as: NodeNumber(1), isNew: true)
        let value = Self.withPlaces(body: "{}")
        let version = try version(update(Self.storing(value, macros: Self.macros)))
        let expected = Self.expanded(cas: version.cas, seqno: version.seqno.value - 1)
        #expect(try syncAttribute() == expected)
    }

    @Test func macrosOfBodyAreExpandedBehindKeptAttributes() throws {
        try open()
        update(Self.storing(Self.value(["user"], body: "{}")))
        let version = try version(
            update { _, writer in
                writer.append(text: #""\#(MacroPatch.placeholder)""#)
                let macro = MacroPatch(offset: 1, kind: .seqno)
                var fields = DocumentChange.Fields()
                fields.macros = [macro]
                return .store(fields)
            }
        )
        let digits = String(version.seqno.value, radix: 16)
        let padded = String(repeating: "0", count: 16 - digits.count) + digits
        #expect(try stored() == "document[user]\"0x\(padded)\"")
    }

    // MARK: Writes that keep attributes

    @Test(arguments: [false, true])
    func writesOfClientsKeepAttributes(isEjected: Bool) throws {
        try open(.persistent)
        let client = world.client(of: "guests")
        let long = String(repeating: "1", count: 300)
        let attributes = [(key: "user", value: long), (key: "_sync", value: long)]
        let extras = big(UInt32(7)) + big(UInt32(0))
        let writes: [(frame: [UInt8], outcome: String, datatype: Datatype)] = [
            (Ask.set("key", "[1"), "document[user,_sync][1", .xattr),
            (Ask.on(0x0e, "key", Array("]".utf8)), "document[user,_sync][1]", [.xattr, .json]),
            (Ask.on(0x0f, "key", Array("[".utf8)), "document[user,_sync][[1]", .xattr),
            (
                Ask.on(0x03, "key", Array("41".utf8), extras: extras),
                "document[user,_sync]41", [.xattr, .json]
            ),
            (Ask.counter(0x05, "key", delta: 1), "document[user,_sync]42", [.xattr, .json]),
            (
                Ask.on(0x1c, "key", extras: big(UInt32(1_000))), "document[user,_sync]42",
                [.xattr, .json]
            ),
            (Ask.on(0x04, "key"), "tombstone[_sync]", .xattr),
            (Ask.set("key", "{}"), "document[]{}", .json),
        ]
        update(Self.storing(TestWorld.stored(attributes, body: "{}")))
        for (frame, outcome, datatype) in writes {
            if isEjected {
                world.pass(milliseconds: 500)
                world.ejectEverything()
            }
            _ = client.ask(frame)
            #expect(try stored() == outcome)
            #expect(try world.find("key")?.datatype == datatype)
        }
    }

    @Test func writeOfTheDocumentBrowserKeepsAttributes() throws {
        try open()
        update(Self.storing(Self.value(["user", "_sync"], body: "{}")))
        let action = DocumentAction.write(
            value: Array("[]".utf8),
            flags: 0,
            expiry: 0,
            preservesExpiry: true
        )
        _ = try version(perform(action))
        #expect(try stored() == "document[user,_sync][]")
    }

    @Test func updateThatDeletesKeepsSystemAttributes() throws {
        try open()
        update(Self.storing(Self.value(["user", "_sync"], body: "{}")))
        _ = try version(update { _, _ in .delete })
        #expect(try stored() == "tombstone[_sync]")
        #expect(update(includesDeleted: true) { _, _ in .delete } == .refused(.notFound))
    }

    @Test func transformGetsBodyAndAttributes() throws {
        try open()
        update(Self.storing(Self.value(["user"], body: "{}")))
        let seen = Guarded<[String]>([])
        update { document, _ in
            let names = document?.attributes?.map(\.key.text) ?? []
            seen.withLock { $0 = [document?.body.text ?? ""] + names }
            return .keep
        }
        #expect(seen.withLock { $0 } == ["{}", "user"])
    }

    // MARK: Tombstones

    /// What a transform gets: nothing, a document or a tombstone.
    private func seen(includesDeleted: Bool) -> String? {
        let seen = Guarded<String?>(nil)
        update(includesDeleted: includesDeleted) { document, _ in
            let names = document?.attributes?.map(\.key.text) ?? []
            let kind = document.map { $0.meta.isDeleted ? "tombstone" : "document" } ?? "none"
            seen.withLock { $0 = "\(kind)\(names)" }
            return .keep
        }
        return seen.withLock { $0 }
    }

    @Test(arguments: [false, true])
    func updateReceivesTombstoneOnlyIfItIncludesDeleted(isEjected: Bool) throws {
        try open(.persistent)
        update(Self.storing(Self.value(["user", "_sync"], body: "{}")))
        _ = world.client(of: "guests").ask(Ask.on(0x04, "key"))
        if isEjected {
            world.pass(milliseconds: 500)
            world.ejectEverything()
            #expect(try world.find("key") == nil)
        }
        #expect(seen(includesDeleted: false) == "none[]")
        #expect(seen(includesDeleted: true) == #"tombstone["_sync"]"#)
    }

    @Test func updateMayNameTheCASOfTombstone() throws {
        try open()
        let value = Self.value(["_sync"])
        let cas = try version(update(Self.storing(value, isDeleted: true))).cas
        let next = Self.storing(Self.value(["_sync", "_more"]), isDeleted: true)
        #expect(update(cas: cas, next) == .refused(.notFound))
        let wrong = CAS(cas.value + 1)
        #expect(update(cas: wrong, includesDeleted: true, next) == .refused(.exists))
        _ = try version(update(cas: cas, includesDeleted: true, next))
        #expect(try stored() == "tombstone[_sync,_more]")
    }

    @Test func documentIsRevivedWithItsAttributes() throws {
        try open()
        update(Self.storing(Self.value(["_sync"]), isDeleted: true))
        _ = try version(
            update(includesDeleted: true) { document, writer in
                if let document { writer.append(document.value) }
                writer.append(text: "{}")
                return .store(
                    DocumentChange.Fields(datatype: [.xattr, .json], attributes: .replace)
                )
            }
        )
        #expect(try stored() == "document[_sync]{}")
        let reply = try #require(world.client(of: "guests").ask(Ask.get("key")).first)
        #expect(reply.status == 0)
    }

    @Test func documentIsCreatedAsTombstone() throws {
        try open()
        _ = try version(update(Self.storing(Self.value(["_txn", "user"]), isDeleted: true)))
        #expect(try stored() == "tombstone[_txn,user]")
        let counts = try world.vBucket(of: "key").withCore { ($0.liveCount, $0.tombstoneCount) }
        #expect(counts == (0, 1))
        #expect(world.client(of: "guests").ask(Ask.get("key")).map(\.status) == [1])
    }

    /// Too large to be transformed under the lock.
    private static let large = TestWorld.stored(
        [(key: "_sync", value: String(repeating: "1", count: Limits.lockedTransformBytesMax))]
    )

    @Test(arguments: [false, true])
    func tombstoneTransformedWithoutTheLockIsComparedAgain(namesCAS: Bool) throws {
        try open()
        let cas = try version(update(Self.storing(Self.large, isDeleted: true))).cas
        let calls = Guarded<[String]>([])
        let rivals = Guarded<[Client]>([world.client(of: "guests")])
        let outcome = update(cas: namesCAS ? cas : .none, includesDeleted: true) {
            document,
            writer in
            let isFirst = calls.withLock { calls in
                calls.append(
                    document.map { $0.meta.isDeleted ? "tombstone" : "document" } ?? "none"
                )
                return calls.count == 1
            }
            if isFirst { rivals.withLock { $0[0].send(Ask.set("key", "rival")) } }
            if let document { writer.append(document.body) }
            writer.append(text: "!")
            return .store(DocumentChange.Fields())
        }
        if namesCAS {
            #expect(outcome == .refused(.exists))
            #expect(try stored() == "document[]rival")
        } else {
            _ = try version(outcome)
            #expect(try stored() == "document[]rival!")
            #expect(calls.withLock { $0 } == ["tombstone", "document"])
        }
    }

    @Test func documentDeletedWhileItIsTransformedWithoutTheLockIsMissing() throws {
        try open()
        let body = String(repeating: "b", count: Limits.lockedTransformBytesMax + 1)
        _ = world.client(of: "guests").ask(Ask.set("key", body))
        let rivals = Guarded<[Client]>([world.client(of: "guests")])
        _ = try version(
            update { document, writer in
                if document != nil { rivals.withLock { $0[0].send(Ask.on(0x04, "key")) } }
                writer.append(text: document == nil ? "new" : "changed")
                return .store(DocumentChange.Fields())
            }
        )
        #expect(try stored() == "document[]new")
    }

    @Test func tombstoneTransformedWithoutTheLockIsReplaced() throws {
        try open()
        update(Self.storing(Self.large, isDeleted: true))
        _ = try version(
            update(includesDeleted: true) { document, writer in
                if let document { writer.append(document.value) }
                writer.append(text: "{}")
                return .store(DocumentChange.Fields(datatype: .xattr, attributes: .replace))
            }
        )
        #expect(try stored() == "document[_sync]{}")
    }

    // MARK: Limits

    @Test func systemAttributesBeyondTheirBoundAreRefused() throws {
        try open()
        let long = String(repeating: "1", count: Limits.systemXattrBytesMax)
        let value = TestWorld.stored([(key: "_sync", value: long)], body: "{}")
        #expect(update(Self.storing(value)) == .refused(.tooLarge))
        let user = TestWorld.stored([(key: "user", value: long)], body: "{}")
        _ = try version(update(Self.storing(user)))
    }

    @Test func explicitExpiryIsForNewDocumentsIfTheUpdatePreservesIt() throws {
        try open()
        func expire(_ seconds: UInt32, preserves: Bool) throws -> UInt32 {
            _ = try version(
                update { _, writer in
                    writer.append(text: "{}")
                    var fields = DocumentChange.Fields(expiry: seconds)
                    fields.preservesExpiry = preserves
                    return .store(fields)
                }
            )
            guard case .found(let copy) = perform(.read) else { return 0 }
            return copy.meta.expiry
        }
        let first = try expire(1_000, preserves: true)
        #expect(first > world.time.seconds)
        #expect(try expire(5_000, preserves: true) == first)
        #expect(try expire(5_000, preserves: false) > first)
    }
}
