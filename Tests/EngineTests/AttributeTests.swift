import Bytes
import Engine
import Testing
import Vocabulary

/// What each operation does to extended attributes.
@Suite struct AttributeTests {
    enum Operation: CaseIterable {
        case set, add, replace, append, prepend, increment, touch, delete
        case expiryByRead, whole, tombstone, setWithMeta, deleteWithMeta

        var mayBeDurable: Bool {
            ![.touch, .expiryByRead, .setWithMeta, .deleteWithMeta].contains(self)
        }
    }

    /// By operation: the outcome for each state, in the order of `AttributedDocument.State`: none,
    /// document without attributes, with user attributes, with system attributes too, tombstone
    /// with system attributes, and without.
    static let table: [Operation: [String]] = [
        .set: [
            "document[]9", "document[]9", "document[user]9", "document[user,_sys]9",
            "document[]9", "document[]9",
        ],
        .add: ["document[]9", "exists", "exists", "exists", "document[]9", "document[]9"],
        .replace: [
            "notFound", "document[]9", "document[user]9", "document[user,_sys]9",
            "notFound", "notFound",
        ],
        .append: [
            "notStored", "document[]59", "document[user]59", "document[user,_sys]59",
            "notStored", "notStored",
        ],
        .prepend: [
            "notStored", "document[]95", "document[user]95", "document[user,_sys]95",
            "notStored", "notStored",
        ],
        .increment: [
            "document[]3", "document[]6", "document[user]6", "document[user,_sys]6",
            "document[]3", "document[]3",
        ],
        .touch: [
            "notFound", "document[]5", "document[user]5", "document[user,_sys]5",
            "notFound", "notFound",
        ],
        .delete: [
            "notFound", "tombstone[]", "tombstone[]", "tombstone[_sys]",
            "notFound", "notFound",
        ],
        .expiryByRead: [
            "notFound", "tombstone[]", "tombstone[]", "tombstone[_sys]",
            "tombstone[_sys]", "tombstone[]",
        ],
        .whole: [String](repeating: "document[new]9", count: 6),
        .tombstone: [String](repeating: "tombstone[_new]", count: 6),
        .setWithMeta: [String](repeating: "document[new]9", count: 6),
        .deleteWithMeta: [String](repeating: "tombstone[_new]", count: 6),
    ]

    private func perform(_ operation: Operation, _ document: AttributedDocument) -> String {
        let nine = Array("9".utf8)
        switch operation {
        case .set: return document.store(nine)
        case .add: return document.store(nine, mode: .add)
        case .replace: return document.store(nine, mode: .replace)
        case .append: return extend(document, nine, atFront: false)
        case .prepend: return extend(document, nine, atFront: true)
        case .increment:
            return document.run { core, key, hash, turn in
                let request = ArithmeticRequest(
                    key: key,
                    hash: hash,
                    isIncrement: true,
                    delta: 1,
                    initial: 3,
                    expiry: 0,
                    cas: .none
                )
                return core.arithmetic(request, turn)
            }
        case .touch:
            let end = document.stage.seconds + 100
            return document.read { $0.touch($1, hash: $2, expiry: end, $3) }
        case .delete: return document.run { $0.delete($1, hash: $2, cas: .none, $3) }
        case .expiryByRead:
            document.stage.seconds += 20
            return document.read { $0.getAny($1, hash: $2, $3) }
        case .whole:
            let value = xattrs(["new": "1"], body: "9")
            return document.store(value, datatype: .xattr, attributes: .replace)
        case .tombstone:
            let value = xattrs(["_new": "1"])
            return document.store(
                value,
                datatype: .xattr,
                attributes: .replace,
                isDeleted: true
            )
        case .setWithMeta: return storeWithMeta(document, xattrs(["new": "1"], body: "9"))
        case .deleteWithMeta:
            return storeWithMeta(document, xattrs(["_new": "1"]), isDeleted: true)
        }
    }

    private func extend(
        _ document: AttributedDocument,
        _ bytes: [UInt8],
        atFront: Bool,
        isJSON: (ByteView) -> Bool = { _ in false }
    ) -> String {
        viewing(bytes) { bytes in
            document.run {
                $0.extend(
                    $1,
                    hash: $2,
                    with: bytes,
                    atFront: atFront,
                    cas: .none,
                    isJSON: isJSON,
                    $3
                )
            }
        }
    }

    private func storeWithMeta(
        _ document: AttributedDocument,
        _ value: [UInt8],
        isDeleted: Bool = false
    ) -> String {
        viewing(value) { value in
            document.run { core, key, hash, turn in
                let request = WithMetaRequest(
                    key: key,
                    hash: hash,
                    value: value,
                    meta: DocumentMeta(
                        cas: CAS(5),
                        revision: 100,
                        datatype: .xattr,
                        isDeleted: isDeleted
                    )
                )
                guard let request else { return .refused(.notStored) }
                return core.storeWithMeta(request, turn)
            }
        }
    }

    @Test(arguments: Operation.allCases, AttributedDocument.Residency.allCases)
    func everyOperationHasTableOutcomeInEachState(
        _ operation: Operation,
        _ residency: AttributedDocument.Residency
    ) throws {
        let expected = try #require(Self.table[operation])
        let levels: [DurabilityLevel?] = operation.mayBeDurable ? [nil, .majority] : [nil]
        for (state, expected) in zip(AttributedDocument.State.allCases, expected) {
            for level in levels {
                let expiry: UInt32 = operation == .expiryByRead ? 1_700_000_010 : 0
                let document = try AttributedDocument(state, residency, expiry: expiry)
                document.level = level
                let outcome = perform(operation, document)
                #expect(outcome == expected, "\(state), \(String(describing: level))")
                #expect(document.isConsistent, "\(state), \(String(describing: level))")
                if let meta = document.meta, expected.contains("[") {
                    let hasAttributes = !expected.contains("[]")
                    #expect(meta.datatype.contains(.xattr) == hasAttributes)
                }
            }
        }
    }

    @Test func writeOverEjectedDocumentWithoutAttributesReadsNoDisk() throws {
        let body = String(repeating: "b", count: 200)
        let document = try AttributedDocument(.plain, .ejected, body: body)
        #expect(document.store(Array("9".utf8)) == "document[]9")
        #expect(document.valueFetches == 0)
        let other = try AttributedDocument(.user, .ejected)
        #expect(other.store(Array("9".utf8)) == "document[user]9")
        #expect(other.valueFetches == 1)
    }

    @Test func pagerKeepsSystemAttributesOfExpiredDocument() throws {
        let document = try AttributedDocument(.system, expiry: 1_700_000_010)
        document.stage.seconds += 20
        let turn = document.stage.turn
        let slice = document.vBucket.withCore {
            $0.expireSlice(from: 0, groupsMax: .max / 2, turn)
        }
        #expect(slice.count == 1)
        #expect(document.description == "tombstone[_sys]")
        #expect(document.meta?.isExpired == true && document.isConsistent)
    }

    @Test func pagerWithoutDiskKeepsSystemAttributesOfDeletedDocument() throws {
        let document = try AttributedDocument(.system)
        let turn = document.stage.turn
        _ = document.vBucket.withCore {
            $0.deleteSlice(from: 0, groupsMax: .max / 2, threshold: .max, turn)
        }
        #expect(document.description == "tombstone[_sys]" && document.isConsistent)
    }

    @Test func appendDetectsJSONInTheBodyAlone() throws {
        let document = try AttributedDocument(.system)
        var seen: [String] = []
        let outcome = extend(document, Array("0".utf8), atFront: false) { body in
            seen.append(body.text)
            return true
        }
        #expect(outcome == "document[user,_sys]50" && seen == ["50"])
        #expect(document.meta?.datatype == [.json, .xattr])
    }

    @Test func tombstonesAreReadWithTheirAttributes() throws {
        for residency in AttributedDocument.Residency.allCases {
            let document = try AttributedDocument(.tombstoneWithSystem, residency)
            #expect(document.read { $0.getAny($1, hash: $2, $3) } == "tombstone[_sys]")
            #expect(document.read { $0.get($1, hash: $2, $3) } == "notFound")
        }
    }

    @Test func replicaReadFindsTombstoneOnlyOnRequest() throws {
        for residency in AttributedDocument.Residency.allCases {
            let document = try AttributedDocument(.tombstoneWithSystem, residency)
            document.vBucket.withCore { $0.become(.replica) }
            #expect(document.read { $0.getReplica($1, hash: $2, $3) } == "notFound")
            var isFound = false
            _ = document.read { core, key, hash, turn in
                let outcome = core.getReplica(key, hash: hash, includesDeleted: true, turn)
                if case .done(let (item, _)) = outcome { isFound = item.isDeleted }
                return outcome
            }
            #expect(isFound, "\(residency)")
        }
    }

    @Test func revivedDocumentContinuesTheRevisionOfItsTombstone() throws {
        let document = try AttributedDocument(.tombstoneWithSystem)
        let revision = try #require(document.meta).revision
        let value = xattrs(["_sys": "3"], body: "9")
        let outcome = document.store(value, datatype: .xattr, attributes: .replace)
        #expect(outcome == "document[_sys]9")
        #expect(document.meta?.revision == revision + 1 && document.meta?.expiry == 0)
    }

    // MARK: Limits and memory

    @Test func bodyAndUserAttributesShareTheBoundOfTheValue() throws {
        let largest = [UInt8](repeating: 120, count: Limits.valueBytesMax)
        let system = try AttributedDocument()
        _ = system.store(xattrs(["_sys": "1"], body: "5"), datatype: .xattr, attributes: .replace)
        #expect(system.store(largest).hasPrefix("document[_sys]"))
        #expect(extend(system, [1], atFront: true) == "tooLarge")
        let user = try AttributedDocument(.user)
        #expect(user.store(largest) == "tooLarge")
        #expect(user.description == "document[user]5")
    }

    @Test func writeIsAdmittedWithTheAttributesThatItKeeps() throws {
        let document = try AttributedDocument()
        let long = String(repeating: "1", count: 300_000)
        let value = xattrs(["user": "\(long)"], body: "5")
        _ = document.store(value, datatype: .xattr, attributes: .replace)
        let account = document.bucket.account
        account.quota = (account.bytes + 200_000) * 100 / 93
        #expect(document.store([57]) == "noRoom(\(2 * value.count))")
        #expect(extend(document, [57], atFront: true) == "noRoom(\(2 * value.count + 1))")
        #expect(document.description == "document[user]5")
        #expect(document.run { $0.delete($1, hash: $2, cas: .none, $3) } == "tombstone[]")
    }

    @Test func valueInTheScratchBufferIsStoredBehindKeptAttributes() throws {
        for count in [1, 300, 100_000] {
            let document = try AttributedDocument(.user)
            let body = [UInt8](repeating: 98, count: count)
            let outcome = document.run { core, key, hash, turn in
                turn.scratch.removeAll()
                turn.scratch.append(text: "before")
                turn.scratch.append(body)
                let request = StoreRequest(
                    key: key,
                    hash: hash,
                    value: turn.scratch.view.dropFirst(6),
                    flags: 0,
                    expiry: 0,
                    datatype: [],
                    cas: .none,
                    mode: .set,
                    preservesExpiry: false
                )
                return core.store(request, turn)
            }
            #expect(outcome == "document[user]" + String(decoding: body, as: UTF8.self))
        }
    }

    // MARK: Upcoming numbers

    @Test(arguments: [nil, DurabilityLevel.majority])
    func upcomingNumbersAreThoseOfTheNextVersion(_ level: DurabilityLevel?) throws {
        let document = try AttributedDocument(.plain)
        document.level = level
        var (upcoming, stored): ((cas: CAS, seqno: Seqno)?, Stored?) = (nil, nil)
        _ = document.run { core, key, hash, turn in
            upcoming = core.upcoming(turn)
            let outcome = core.delete(key, hash: hash, cas: .none, turn)
            switch outcome {
            case .done(let made), .prepared(let made): stored = made
            default: break
            }
            return outcome
        }
        #expect(upcoming?.cas == stored?.cas && upcoming?.seqno == stored?.seqno)
        let seqno = try #require(document.meta).seqno
        let made = try #require(stored).seqno
        #expect(document.meta?.cas == stored?.cas)
        #expect(seqno.value == made.value + (level == nil ? 0 : 1), "a commit has its own seqno")
    }
}
