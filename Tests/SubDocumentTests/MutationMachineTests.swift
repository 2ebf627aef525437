import Bytes
import SubDocument
import Testing
import Vocabulary
import Wire

/// Mutations of several paths: what is stored, in which state, and what fails.
@Suite struct MutationMachineTests {
    private let live = Version(
        attributes: ["_sync": #"{"rev":1}"#, "user": #"{"a":1}"#],
        body: #"{"n":5,"list":[1]}"#
    )
    private let tombstone = Version(attributes: ["_sync": #"{"rev":1}"#], isDeleted: true)

    // MARK: Paths

    @Test func pathsOfAttributesAndBodyAreAppliedInOrder() {
        let outcome = mutate(
            [
                .attribute(.dictionaryUpsert, "_sync.rev", "2"),
                .attribute(.dictionaryAdd, "_sync.new", "[]"),
                .attribute(.arrayPushLast, "_sync.new", "1,2"),
                Spec(.counter, "n", "3"), Spec(.replace, "list", "true"),
                Spec(.counter, "n", "-10"),
            ],
            on: live
        )
        var expected = live
        expected.attributes["_sync"] = #"{"rev":2,"new":[1,2]}"#
        expected.body = #"{"n":-2,"list":true}"#
        let results = "\u{3}\0\0\0\0\0\u{1}8" + "\u{5}\0\0\0\0\0\u{2}-2"
        #expect(outcome == .version(expected, results: results))
    }

    @Test func failureOfOnePathStoresNothingAndHasItsIndex() {
        let specs: [Spec] = [
            .attribute(.dictionaryUpsert, "x", "1"), Spec(.dictionaryUpsert, "a", "1"),
            Spec(.dictionaryAdd, "n", "1"), Spec(.delete, "absent"),
        ]
        #expect(mutate(specs, on: live) == .failed(2, .subdocPathExists))
    }

    @Test func attributesAreCreatedReplacedAndDeleted() {
        let outcome = mutate(
            [
                .attribute(.dictionaryAdd, "first", "1"),
                .attribute(.dictionaryUpsert, "deep.er.path", "2", .makesParents),
                .attribute(.arrayPushFirst, "list", "3", .makesParents),
                .attribute(.replace, "user", "null"), .attribute(.delete, "_sync"),
                .attribute(.counter, "count", "4"),
            ],
            on: live
        )
        let expected = Version(
            attributes: [
                "first": "1", "deep": #"{"er":{"path":2}}"#, "list": "[3]", "user": "null",
                "count": "4",
            ],
            body: live.body
        )
        #expect(outcome == .version(expected, results: "\u{5}\0\0\0\0\0\u{1}4"))
    }

    @Test func attributeIsAddedOnceAndReplacedOnlyIfThere() {
        let (exists, missing) = (Status.subdocPathExists, Status.subdocPathNotFound)
        #expect(mutate([.attribute(.dictionaryAdd, "user", "1")], on: live) == .failed(0, exists))
        #expect(mutate([.attribute(.replace, "x", "1")], on: live) == .failed(0, missing))
        #expect(mutate([.attribute(.delete, "x")], on: live) == .failed(0, missing))
        let specs: [Spec] = [.attribute(.delete, "user"), .attribute(.delete, "user")]
        #expect(mutate(specs, on: live) == .failed(1, missing))
        #expect(
            mutate([.attribute(.dictionaryUpsert, "x.y", "1")], on: live) == .failed(0, missing)
        )
    }

    @Test func attributeThatWasDeletedIsCreatedAgain() {
        let specs: [Spec] = [
            .attribute(.delete, "user"), .attribute(.dictionaryAdd, "user", "9"),
        ]
        var expected = live
        expected.attributes["user"] = "9"
        #expect(mutate(specs, on: live) == .version(expected))
    }

    @Test func lastAttributeLeavesNoEmptySection() {
        let version = Version(attributes: ["user": "1"], body: "{}")
        #expect(mutate([.attribute(.delete, "user")], on: version) == .version(Version(body: "{}")))
    }

    @Test func removedMemberLeavesAnEmptyAttribute() {
        var expected = live
        expected.attributes["user"] = "{}"
        #expect(mutate([.attribute(.delete, "user.a")], on: live) == .version(expected))
    }

    @Test func valueThatIsNotJSONIsNotInserted() {
        let specs: [Spec] = [
            Spec(.dictionaryUpsert, "a", "text"), .attribute(.dictionaryUpsert, "a", "{"),
        ]
        for spec in specs {
            #expect(mutate([spec], on: live) == .failed(0, .subdocValueCannotInsert))
        }
    }

    @Test func bodyThatIsNotJSONIsReplacedAsAWholeOnly() {
        let binary = Version(body: "binary", isJSON: false)
        let path = mutate([Spec(.dictionaryUpsert, "a", "1")], on: binary)
        #expect(path == .failed(0, .subdocDocumentNotJSON))
        #expect(mutate([Spec(.setDocument, "", "{}")], on: binary) == .version(Version(body: "{}")))
        let attribute = mutate([.attribute(.dictionaryUpsert, "x", "1")], on: binary)
        #expect(
            attribute == .version(Version(attributes: ["x": "1"], body: "binary", isJSON: false))
        )
    }

    // MARK: New documents

    @Test func missingDocumentIsMadeOnlyOnRequest() {
        let specs = [Spec(.dictionaryUpsert, "a", "1")]
        let made = Mutated.version(Version(body: #"{"a":1}"#))
        #expect(mutate(specs) == .refused(.keyNotFound))
        #expect(mutate(specs, .makesDocument) == made)
        #expect(mutate(specs, .adds) == made)
        #expect(mutate(specs, .adds, on: live) == .refused(.keyExists))
        #expect(mutate(specs, [.revives, .accessesDeleted]) == .refused(.keyNotFound))
        #expect(mutate(specs, [.revives, .accessesDeleted, .makesDocument]) == made)
    }

    @Test func requestThatMayCreateTheDocumentCreatesMissingParents() {
        let specs: [Spec] = [
            .attribute(.dictionaryUpsert, "_a.b.c", "1"), Spec(.dictionaryAdd, "x.y", "2"),
            Spec(.arrayPushLast, "list.of", "3"), Spec(.counter, "n.m", "4"),
        ]
        let expected = Version(
            attributes: ["_a": #"{"b":{"c":1}}"#],
            body: #"{"x":{"y":2},"list":{"of":[3]},"n":{"m":4}}"#
        )
        for flags in [DocumentFlags.makesDocument, .adds] {
            let made = mutate(specs, flags)
            #expect(made == .version(expected, results: "\u{3}\0\0\0\0\0\u{1}4"))
        }
        let existing = mutate(specs, .makesDocument, on: Version(body: "{}"))
        #expect(existing == .version(expected, results: "\u{3}\0\0\0\0\0\u{1}4"))
        #expect(mutate(specs, on: live) == .failed(0, .subdocPathNotFound))
    }

    @Test func firstPathChoosesTheRootOfANewDocument() {
        let flags = DocumentFlags.makesDocument
        let pushed = mutate([Spec(.arrayPushLast, "", "1,2")], flags)
        #expect(pushed == .version(Version(body: "[1,2]")))
        #expect(
            mutate([Spec(.arrayAddUnique, "", "1")], flags) == .version(Version(body: "[1]"))
        )
        let attribute = Spec.attribute(.dictionaryUpsert, "x", "1")
        let expected = Version(attributes: ["x": "1"], body: "{}")
        #expect(mutate([attribute], flags) == .version(expected))
        #expect(
            mutate([attribute, Spec(.setDocument, "", "7")], flags)
                == .version(Version(attributes: ["x": "1"], body: "7"))
        )
    }

    // MARK: Tombstones

    @Test func deletionOfADocumentKeepsItsSystemAttributes() {
        let specs: [Spec] = [
            .attribute(.dictionaryUpsert, "_sync.rev", "2"),
            .attribute(.dictionaryUpsert, "user.b", "2"), Spec(.deleteDocument),
        ]
        let expected = Version(attributes: ["_sync": #"{"rev":2}"#], isDeleted: true)
        #expect(mutate(specs, on: live) == .version(expected))
        let plain = mutate([Spec(.deleteDocument)], on: Version(body: "{}"))
        #expect(plain == .version(Version(isDeleted: true)))
        #expect(mutate([Spec(.deleteDocument)]) == .refused(.keyNotFound))
    }

    @Test func tombstoneIsCreatedWithUserAndSystemAttributes() {
        let specs: [Spec] = [
            .attribute(.dictionaryUpsert, "_sync", "1"), .attribute(.dictionaryUpsert, "u", "2"),
        ]
        let flags: DocumentFlags = [.createsAsDeleted, .accessesDeleted, .adds]
        let expected = Version(attributes: ["_sync": "1", "u": "2"], isDeleted: true)
        #expect(mutate(specs, flags) == .version(expected))
        #expect(mutate(specs, flags, on: tombstone) == .refused(.keyExists))
    }

    @Test func attributesOfATombstoneChangeAndItsBodyDoesNot() {
        let change = Spec.attribute(.dictionaryUpsert, "_sync.rev", "2")
        let expected = Version(attributes: ["_sync": #"{"rev":2}"#], isDeleted: true)
        #expect(mutate([change], .accessesDeleted, on: tombstone) == .version(expected))
        // The body of a tombstone is no JSON, and it cannot get one.
        let path = [change, Spec(.dictionaryUpsert, "a", "1")]
        let failed = Mutated.failed(1, .subdocDocumentNotJSON)
        #expect(mutate(path, .accessesDeleted, on: tombstone) == failed)
        #expect(mutate(path, [.createsAsDeleted, .adds]) == failed)
        let body: [Spec] = [change, .attribute(.replaceBodyWithAttribute, "_sync")]
        #expect(
            mutate(body, .accessesDeleted, on: tombstone) == .refused(.subdocDeletedCannotHaveValue)
        )
        let deleted = mutate(body + [Spec(.deleteDocument)], .accessesDeleted, on: tombstone)
        #expect(deleted == .version(expected))
    }

    /// As transactions stage a document over one that was deleted.
    @Test func tombstoneChangesInRequestThatWouldCreateOne() {
        let flags: DocumentFlags = [.createsAsDeleted, .accessesDeleted]
        let specs = [Spec.attribute(.dictionaryUpsert, "_sync.rev", "2")]
        let expected = Version(attributes: ["_sync": #"{"rev":2}"#], isDeleted: true)
        #expect(mutate(specs, flags, on: tombstone) == .version(expected))
        #expect(mutate(specs, flags) == .refused(.keyNotFound))
    }

    @Test func bodyThatIsSetIsChangedByLaterPaths() {
        let specs = [
            Spec(.setDocument, "", #"{"a":1}"#), Spec(.counter, "a", "1"),
            Spec(.setDocument, "", #"{"b":1}"#), Spec(.counter, "b", "5"),
        ]
        let results = "\u{1}\0\0\0\0\0\u{1}2\u{3}\0\0\0\0\0\u{1}6"
        #expect(
            mutate(specs, on: live)
                == .version(
                    Version(attributes: live.attributes, body: #"{"b":6}"#),
                    results: results
                )
        )
    }

    @Test func macroOfUnknownMemberFailsItsPath() {
        let specs: [Spec] = [
            .attribute(.dictionaryUpsert, "x", "1"), .macro("y", "\"${$document.other}\""),
        ]
        #expect(mutate(specs, on: live) == .failed(1, .subdocXattrUnknownVirtualMacro))
    }

    @Test func revivedTombstoneKeepsItsAttributes() {
        let flags: DocumentFlags = [.revives, .accessesDeleted]
        let attributes = tombstone.attributes
        #expect(
            mutate([Spec(.setDocument, "", "7")], flags, on: tombstone)
                == .version(Version(attributes: attributes, body: "7"))
        )
        #expect(
            mutate([Spec(.arrayPushLast, "", "1")], flags, on: tombstone)
                == .version(Version(attributes: attributes, body: "[1]"))
        )
        #expect(
            mutate([.attribute(.delete, "_sync")], flags, on: tombstone)
                == .version(Version(body: "{}"))
        )
        #expect(
            mutate([Spec(.setDocument, "", "7")], flags, on: live)
                == .refused(.subdocCanOnlyReviveDeleted)
        )
    }

    @Test func stagedAttributeBecomesTheBodyOfARevivedTombstone() {
        let staged = Version(
            attributes: ["txn": #"{"op":{"stgd":{"a":1}}}"#],
            isDeleted: true
        )
        let specs: [Spec] = [
            .attribute(.replaceBodyWithAttribute, "txn.op.stgd"), .attribute(.delete, "txn"),
        ]
        let flags: DocumentFlags = [.revives, .accessesDeleted]
        #expect(mutate(specs, flags, on: staged) == .version(Version(body: #"{"a":1}"#)))
        let missing = mutate([.attribute(.replaceBodyWithAttribute, "x")], on: live)
        #expect(missing == .failed(0, .subdocPathNotFound))
    }

    /// Versions of other clusters have attributes of any bytes.
    @Test func attributeThatIsNotJSONBecomesABodyThatIsNotJSON() {
        let version = Version(attributes: ["list": "[1 2]"], body: "{}")
        let expected = Version(attributes: ["list": "[1 2]"], body: "[1 2]", isJSON: false)
        let specs: [Spec] = [.attribute(.replaceBodyWithAttribute, "list")]
        #expect(mutate(specs, on: version) == .version(expected))
    }

    // MARK: System attributes

    @Test func systemAttributesAreDeniedByPath() {
        let user = Spec.attribute(.dictionaryUpsert, "user", "1")
        let denied: [Spec] = [
            .attribute(.dictionaryUpsert, "_sync.rev", "1"), .attribute(.delete, "_sync"),
            .attribute(.replaceBodyWithAttribute, "_sync"), .macro("_sync", "\"${Mutation.CAS}\""),
        ]
        for spec in denied {
            let outcome = mutate([user, spec], on: live, writesSystemAttributes: false)
            #expect(outcome == .failed(1, .accessDenied), "\(spec)")
        }
        guard
            case .version(let version, _, _) = mutate(
                [user],
                on: live,
                writesSystemAttributes: false
            )
        else {
            Issue.record("the mutation failed")
            return
        }
        #expect(version.attributes["_sync"] == live.attributes["_sync"])
    }

    // MARK: Binary values

    @Test func binaryValueIsStoredAsAStringAndBecomesABody() {
        let value = "\u{0}\u{1}\u{2}"
        let specs: [Spec] = [
            .attribute(.dictionaryUpsert, "b", value, .binary),
            .attribute(.replaceBodyWithAttribute, "b", "", .binary),
        ]
        let expected = Version(
            attributes: ["b": #""cb-content-base64-encoded:AAEC""#],
            body: value,
            isJSON: false
        )
        #expect(mutate(specs, .makesDocument) == .version(expected))
        #expect(
            mutate([.attribute(.replaceBodyWithAttribute, "user", "", .binary)], on: live)
                == .failed(0, .subdocFieldNotBinaryValue)
        )
    }

    // MARK: Macros

    /// The text that the store replaces.
    private static let zeros = #""0x0000000000000000""#

    @Test func macrosOfTheNewVersionHavePositionsInTheStoredForm() throws {
        let specs: [Spec] = [
            .attribute(.dictionaryUpsert, "_sync", #"{"a":1}"#),
            .macro("_sync.cas", #""${Mutation.CAS}""#),
            .macro("_sync.seqno", #""${Mutation.seqno}""#),
            .macro("_sync.crc", #""${Mutation.value_crc32c}""#),
            Spec(.setDocument, "", "123456789"),
        ]
        guard case .version(let version, _, let patches) = mutate(specs, .adds) else {
            Issue.record("the mutation failed")
            return
        }
        let text =
            #"{"a":1,"cas":\#(Self.zeros),"seqno":\#(Self.zeros),"crc":"0xe3069283"}"#
        #expect(version == Version(attributes: ["_sync": text], body: "123456789"))
        let stored = String(decoding: version.stored.bytes, as: UTF8.self)
        let kinds = Dictionary(uniqueKeysWithValues: patches.map { ($0.kind, $0.offset) })
        for (kind, name) in [(MacroPatch.Kind.cas, "cas"), (.seqno, "seqno")] {
            let before = try #require(stored.firstRange(of: #""\#(name)":""#))
            let offset = stored.utf8.distance(from: stored.startIndex, to: before.upperBound)
            #expect(kinds[kind] == offset)
        }
    }

    @Test func macroThatALaterPathMovesOrDeletesIsFollowed() {
        let cas = #""${Mutation.CAS}""#
        func places(_ specs: [Spec]) -> Int? {
            guard case .version(let version, _, let patches) = mutate(specs, on: live) else {
                return nil
            }
            let bytes = version.stored.bytes
            let zeros = Array("0x0000000000000000".utf8)
            for patch in patches {
                guard bytes.dropFirst(patch.offset).starts(with: zeros) else { return nil }
            }
            return patches.count
        }
        let macro = Spec.macro("user.cas", cas)
        #expect(places([macro]) == 1)
        #expect(places([macro, .attribute(.delete, "user.a")]) == 1)
        #expect(places([macro, .attribute(.delete, "user.cas")]) == 0)
        #expect(places([macro, .attribute(.dictionaryUpsert, "user.cas", "1")]) == 0)
        #expect(places([macro, macro, .macro("user.other", cas)]) == 2)
        let same = Spec.attribute(.dictionaryUpsert, "user.cas", Self.zeros)
        #expect(places([macro, same]) == 0)
    }

    @Test func macrosOfTheVersionBeforeAreExpandedAtOnce() {
        let specs: [Spec] = [
            .macro("x", #""${$document.CAS}""#), .macro("y", #""${$document.flags}""#),
            .macro("z", #""${$document.revid}""#),
        ]
        var expected = live
        expected.attributes["x"] = #""0x0000000000001122""#
        expected.attributes["y"] = "7"
        expected.attributes["z"] = #""3""#
        #expect(mutate(specs, on: live) == .version(expected))
        let missing = Version(
            attributes: ["x": Self.zeros, "y": "0", "z": #""0""#],
            body: "{}"
        )
        #expect(mutate(specs, .makesDocument) == .version(missing))
    }

    // MARK: Limits

    @Test func systemAttributesBeyondOneMebibyteAreTooBig() {
        let text = "\"" + String(repeating: "x", count: Limits.systemXattrBytesMax) + "\""
        let outcome = mutate([.attribute(.dictionaryUpsert, "_big", text)], on: live)
        #expect(outcome == .refused(.tooBig))
        let user = mutate([.attribute(.dictionaryUpsert, "big", text)], on: Version(body: "{}"))
        #expect(user == .version(Version(attributes: ["big": text], body: "{}")))
    }

    @Test func attributesBeyondTheMaximumCountAreTooBig() {
        var full = Version(body: "{}")
        for number in 0..<Limits.xattrCountMax { full.attributes["a\(number)"] = "1" }
        let more = mutate([.attribute(.dictionaryUpsert, "b", "1")], on: full)
        #expect(more == .refused(.tooBig))
        var changed = full
        changed.attributes["a7"] = "2"
        #expect(mutate([.attribute(.dictionaryUpsert, "a7", "2")], on: full) == .version(changed))
    }
}
