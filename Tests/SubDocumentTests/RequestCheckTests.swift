import SubDocument
import Testing
import Wire

/// Which requests are refused as a whole, for any document.
@Suite struct RequestCheckTests {
    private func refusal(
        _ specs: [Spec],
        _ flags: DocumentFlags = [],
        hasCAS: Bool = false,
        attributes: Bool = true
    ) -> Status? {
        withRequest(specs, flags) {
            RequestCheck.refusal(
                of: $0,
                hasCAS: hasCAS,
                RequestCheck.Allowance(attributes: attributes)
            )
        }
    }

    private func refusal(ofSingle spec: Spec, _ flags: DocumentFlags = []) -> Status? {
        withSingleRequest(spec, flags) {
            RequestCheck.refusal(
                of: $0,
                hasCAS: false,
                RequestCheck.Allowance(attributes: true)
            )
        }
    }

    /// The flags of each operation, written out.
    @Test func eachOperationAllowsItsFlagsOnly() {
        let parents: [SubDocumentOperation] = [
            .dictionaryAdd, .dictionaryUpsert, .arrayPushLast, .arrayPushFirst, .arrayAddUnique,
            .counter,
        ]
        let macros: [SubDocumentOperation] = [
            .dictionaryAdd, .dictionaryUpsert, .replace, .arrayPushLast, .arrayPushFirst,
            .arrayInsert,
        ]
        let binary: [SubDocumentOperation] = [
            .get, .dictionaryAdd, .dictionaryUpsert, .replace, .replaceBodyWithAttribute,
        ]
        for operation in SubDocumentOperation.allCases where !operation.isWholeDocument {
            let value = OperationValues.text(of: operation)
            func refusal(_ flag: PathFlags, _ text: String) -> Status? {
                self.refusal([Spec(operation, "a.b", text, [.attribute, flag])])
            }
            #expect(refusal([], value) == nil, "\(operation)")
            #expect((refusal(.makesParents, value) == nil) == parents.contains(operation))
            #expect((refusal(.binary, value) == nil) == binary.contains(operation))
            let macro = operation.isMutation && !value.isEmpty ? "\"${Mutation.CAS}\"" : value
            #expect((refusal(.expandsMacros, macro) == nil) == macros.contains(operation))
        }
    }

    @Test func wholeDocumentHasNoPathAndNoFlags() {
        #expect(refusal([Spec(.getDocument)]) == nil)
        #expect(refusal([Spec(.getDocument, "a")]) == .invalid)
        #expect(refusal([Spec(.setDocument, "", "{}", .attribute)]) == .invalid)
        #expect(refusal([Spec(.setDocument)]) == .invalid)
        #expect(refusal([Spec(.deleteDocument, "", "{}")]) == .invalid)
    }

    @Test func onlyPushesAndCountsMayNameTheRoot() {
        let allowed: [SubDocumentOperation] = [
            .arrayPushLast, .arrayPushFirst, .arrayAddUnique, .getCount,
        ]
        for operation in SubDocumentOperation.allCases
        where !operation.isWholeDocument && operation != .replaceBodyWithAttribute {
            let spec = Spec(operation, "", OperationValues.text(of: operation))
            #expect((refusal([spec]) == nil) == allowed.contains(operation), "\(operation)")
        }
    }

    @Test func valueIsNeededExactlyByOperationsThatWriteOne() {
        for operation in SubDocumentOperation.allCases
        where operation.isMutation && !operation.isWholeDocument {
            let needsValue = !OperationValues.text(of: operation).isEmpty
            #expect((refusal([.attribute(operation, "a")]) == nil) == !needsValue)
            #expect((refusal([.attribute(operation, "a", "1")]) == nil) == needsValue)
        }
    }

    @Test func macrosAndBinaryValuesNeedAnAttribute() {
        let macro = Spec(.dictionaryUpsert, "a", "\"${Mutation.CAS}\"", .expandsMacros)
        #expect(refusal([macro]) == .subdocXattrInvalidFlags)
        #expect(refusal([Spec(.get, "a", "", .binary)]) == .subdocXattrInvalidFlags)
        #expect(refusal([Spec(.replaceBodyWithAttribute, "a")]) == .invalid)
        #expect(refusal([Spec(.replaceBodyWithAttribute, "a", "", .binary)]) == .invalid)
        let both = Spec.attribute(.replace, "a", "\"${Mutation.CAS}\"", [.expandsMacros, .binary])
        #expect(refusal([both]) == .subdocXattrInvalidFlags)
        #expect(refusal(ofSingle: both) == .subdocXattrInvalidFlags)
    }

    @Test func attributePathsMustPrecedeBodyPaths() {
        let (attribute, body) = (Spec.attribute(.get, "a"), Spec(.get, "a"))
        #expect(refusal([attribute, .attribute(.get, "b"), body]) == nil)
        #expect(refusal([attribute, body, attribute]) == .subdocXattrInvalidOrder)
        #expect(refusal([Spec(.getDocument), attribute]) == .subdocXattrInvalidOrder)
    }

    @Test func attributesThatWereNotAgreedOnAreNotSupported() {
        let attribute = Spec.attribute(.get, "a")
        #expect(refusal([attribute], attributes: false) == .notSupported)
        #expect(refusal([.attribute(.get, "$document")], attributes: false) == .notSupported)
        #expect(refusal([Spec(.get, "a")], attributes: false) == nil)
    }

    @Test func attributeKeyHasOneToFifteenBytes() {
        #expect(refusal([.attribute(.get, "")]) == .xattrInvalid)
        #expect(refusal([.attribute(.getCount, "")]) == .xattrInvalid)
        #expect(refusal([.attribute(.get, "[0]")]) == .xattrInvalid)
        #expect(refusal([.attribute(.get, ".a")]) == .xattrInvalid)
        #expect(refusal([.attribute(.get, "a23456789012345.b")]) == nil)
        #expect(refusal([.attribute(.get, "a234567890123456.b")]) == .xattrInvalid)
    }

    @Test func attributeKeyBeginsWithNoReservedCharacter() {
        for text in ["!a", "-a", "`a`", "@", "{", "~x", "\u{1}", "\u{7f}"] {
            #expect(refusal([.attribute(.get, text)]) == .xattrInvalid, "\(text)")
        }
        for text in ["_a", "0", "Z", "é", " a"] {
            #expect(refusal([.attribute(.get, text)]) == nil, "\(text)")
        }
    }

    @Test func bareMarkOfSystemOrVirtualAttributeIsInvalid() {
        for text in ["_", "$", "_.a", "$.a", "_[0]", "a\0", "a.b\0"] {
            #expect(refusal([.attribute(.get, text)]) == .xattrInvalid, "\(text)")
            #expect(refusal(ofSingle: .attribute(.delete, text)) == .xattrInvalid, "\(text)")
        }
    }

    @Test func pathHasAtMost1024Bytes() {
        for (count, status) in [(1_024, nil), (1_025, Status.invalid)] {
            let path = String(repeating: "a", count: count)
            #expect(refusal([Spec(.get, path)]) == status)
            #expect(refusal(ofSingle: Spec(.delete, path)) == status)
            let attribute = Spec.attribute(.get, "a." + path.dropFirst(2))
            #expect(refusal([attribute]) == status)
        }
    }

    /// A value that claims to be binary is checked, so that lookups can decode it.
    @Test func markedValueOfAttributeIsBase64() {
        let mark = "cb-content-base64-encoded:"
        for value in ["\"\(mark)AAEC\"", "{\"a\":\"\(mark)AAEC\"}", "\"\(mark)\""] {
            #expect(refusal([.attribute(.dictionaryUpsert, "a", value)]) == nil, "\(value)")
        }
        for value in ["\"\(mark)AAE\"", "{\"a\":\"\(mark)!\"}", "[\(mark)AAEC"] {
            let spec = Spec.attribute(.dictionaryUpsert, "a", value)
            #expect(refusal([spec]) == .xattrInvalid, "\(value)")
            #expect(refusal([Spec(.dictionaryUpsert, "a", value)]) == nil)
        }
    }

    @Test func virtualAttributesAreReadOnly() {
        for key in ["$document", "$document.CAS", "$vbucket.HLC", "$XTOC"] {
            #expect(refusal([.attribute(.get, key)]) == nil)
            #expect(
                refusal([.attribute(.dictionaryUpsert, key, "1")])
                    == .subdocXattrCannotModifyVirtual
            )
        }
        // Its path fails.
        #expect(refusal([.attribute(.get, "$other")]) == nil)
    }

    @Test(
        arguments: [
            ("\"${Mutation.CAS}\"", nil), ("\"${Mutation.seqno}\"", nil),
            ("\"${Mutation.value_crc32c}\"", nil), ("\"${$document.CAS}\"", nil),
            ("\"${$document}\"", nil), ("\"${Mutation.other}\"", .subdocXattrUnknownMacro),
            ("${Mutation.CAS}", .subdocXattrUnknownMacro), ("17", .subdocXattrUnknownMacro),
            // Its path fails.
            ("\"${$document.other}\"", nil),
            ("\"${$XTOC}\"", .subdocXattrUnknownMacro),
        ] as [(String, Status?)]
    )
    func onlyKnownMacrosAreAccepted(_ value: String, _ status: Status?) {
        #expect(refusal([.macro("a", value)]) == status)
    }

    @Test func deletionIsTheOnlyPathOfTheBodyAndTheLastOfAll() {
        let (set, path) = (Spec(.setDocument, "", "{}"), Spec(.dictionaryUpsert, "a", "1"))
        let (deletion, attribute) = (Spec(.deleteDocument), Spec.attribute(.delete, "x"))
        #expect(refusal([attribute, deletion]) == nil)
        for specs in [
            [path, deletion], [deletion, path], [deletion, attribute], [set, deletion],
        ] {
            #expect(refusal(specs) == .subdocInvalidCombination)
        }
        #expect(refusal([attribute, set]) == nil)
        #expect(refusal([set, path, set]) == nil)
        #expect(refusal([Spec(.get, "a"), Spec(.getDocument)]) == nil)
    }

    // MARK: Document flags

    /// The document flags of each operation, as they are on the wire.
    private static let documentFlags: [SubDocumentOperation: UInt8] = [
        .getDocument: 0x34, .get: 0x34, .exists: 0x34, .getCount: 0x34,
        .setDocument: 0x03, .deleteDocument: 0x14, .delete: 0x14, .replaceBodyWithAttribute: 0x14,
        .replace: 0x16, .arrayInsert: 0x1e,
        .dictionaryAdd: 0x1f, .dictionaryUpsert: 0x1f, .arrayPushLast: 0x1f,
        .arrayPushFirst: 0x1f, .arrayAddUnique: 0x1f, .counter: 0x1f,
    ]

    /// Whether a combination of document flags is valid for any operation that allows each of them.
    private static func isValid(_ flags: DocumentFlags, isSingle: Bool) -> Bool {
        if flags.isSuperset(of: [.adds, .makesDocument]) { return false }
        let creates = !flags.isDisjoint(with: [.adds, .makesDocument])
        if isSingle { return !flags.contains(.createsAsDeleted) || creates }
        guard flags.contains(.revives) else { return true }
        return flags.contains(.accessesDeleted) && !flags.contains(.createsAsDeleted)
    }

    /// A path of an attribute, unless the operation has none.
    private static func spec(_ operation: SubDocumentOperation) -> Spec {
        let value = OperationValues.text(of: operation)
        return operation.isWholeDocument
            ? Spec(operation, "", value) : .attribute(operation, "a", value)
    }

    @Test(arguments: SubDocumentOperation.allCases)
    func operationAllowsItsDocumentFlagsOnly(_ operation: SubDocumentOperation) throws {
        let allowed = try #require(Self.documentFlags[operation])
        let spec = Self.spec(operation)
        for bits in UInt8(0)..<64 {
            let flags = DocumentFlags(rawValue: bits)
            let isAllowed = bits & ~allowed == 0
            let several = isAllowed && Self.isValid(flags, isSingle: false)
            #expect(refusal([spec], flags) == (several ? nil : .invalid), "\(bits)")
            if operation.isWholeDocument { continue }
            let single = isAllowed && Self.isValid(flags, isSingle: true)
            #expect(refusal(ofSingle: spec, flags) == (single ? nil : .invalid), "\(bits)")
        }
    }

    /// Each path has to allow the request's flags.
    @Test func flagsAreRefusedIfOneOperationDoesNotAllowThem() {
        let upsert = Spec.attribute(.dictionaryUpsert, "a", "1")
        #expect(refusal([upsert, .attribute(.delete, "b")], .makesDocument) == .invalid)
        #expect(refusal([upsert, Spec(.setDocument, "", "1")], .accessesDeleted) == .invalid)
    }

    @Test func documentThatIsAddedHasNoCAS() {
        let specs = [Spec.attribute(.dictionaryUpsert, "a", "1")]
        #expect(refusal(specs, .adds, hasCAS: true) == .invalid)
        #expect(refusal(specs, .makesDocument, hasCAS: true) == nil)
    }

    /// Transactions replace a tombstone by its CAS with these flags.
    @Test func requestThatCreatesTombstonesMayReplaceOneByItsCAS() {
        let specs = [Spec.attribute(.dictionaryUpsert, "txn", "1")]
        let flags: DocumentFlags = [.createsAsDeleted, .accessesDeleted]
        #expect(refusal(specs, flags, hasCAS: true) == nil)
        #expect(refusal(ofSingle: specs[0], flags) == .invalid)
    }

    @Test func bodyOfCreatedTombstoneIsRefusedByRequestsOfOnePathOnly() {
        let flags: DocumentFlags = [.createsAsDeleted, .adds]
        let (attribute, body) = (
            Spec.attribute(.dictionaryUpsert, "a", "1"), Spec(.dictionaryUpsert, "a", "1")
        )
        #expect(refusal(ofSingle: attribute, flags) == nil)
        #expect(refusal(ofSingle: body, flags) == .invalid)
        // The path fails.
        #expect(refusal([attribute, body], flags) == nil)
        #expect(refusal([attribute], flags, attributes: false) == .notSupported)
    }
}

/// Values that operations need.
enum OperationValues {
    /// Empty if the operation has no value.
    static func text(of operation: SubDocumentOperation) -> String {
        switch operation {
        case .get, .exists, .getCount, .getDocument, .delete, .deleteDocument,
            .replaceBodyWithAttribute:
            ""
        default: "1"
        }
    }
}
