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

    /// The flags of each operation, written out as in kv.md 4.
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
    }

    @Test func attributesComeFirst() {
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
        #expect(refusal([.attribute(.get, "")]) == .invalid)
        #expect(refusal([.attribute(.get, "[0]")]) == .xattrInvalid)
        #expect(refusal([.attribute(.get, ".a")]) == .xattrInvalid)
        #expect(refusal([.attribute(.get, "a23456789012345.b")]) == nil)
        #expect(refusal([.attribute(.get, "a234567890123456.b")]) == .xattrInvalid)
    }

    @Test func attributeKeyBeginsWithNoReservedCharacter() {
        for text in ["!a", "-a", "`a`", "@", "{", "~x", "\u{1}"] {
            #expect(refusal([.attribute(.get, text)]) == .xattrInvalid, "\(text)")
        }
        for text in ["_a", "0", "Z", "é"] { #expect(refusal([.attribute(.get, text)]) == nil) }
    }

    @Test func virtualAttributesAreReadOnly() {
        for key in ["$document", "$document.CAS", "$vbucket.HLC", "$XTOC"] {
            #expect(refusal([.attribute(.get, key)]) == nil)
            #expect(
                refusal([.attribute(.dictionaryUpsert, key, "1")])
                    == .subdocXattrCannotModifyVirtual
            )
        }
        #expect(refusal([.attribute(.get, "$other")]) == .subdocXattrUnknownVirtual)
    }

    @Test(
        arguments: [
            ("\"${Mutation.CAS}\"", nil), ("\"${Mutation.seqno}\"", nil),
            ("\"${Mutation.value_crc32c}\"", nil), ("\"${$document.CAS}\"", nil),
            ("\"${$document}\"", nil), ("\"${Mutation.other}\"", .subdocXattrUnknownMacro),
            ("${Mutation.CAS}", .subdocXattrUnknownMacro), ("17", .subdocXattrUnknownMacro),
            ("\"${$document.other}\"", .subdocXattrUnknownVirtualMacro),
            ("\"${$XTOC}\"", .subdocXattrUnknownVirtualMacro),
        ] as [(String, Status?)]
    )
    func valueOfAMacroIsOneOfTheKnown(_ value: String, _ status: Status?) {
        #expect(refusal([.macro("a", value)]) == status)
    }

    @Test func wholeDocumentIsTheOnlyPathOfTheBodyInAMutation() {
        let (set, path) = (Spec(.setDocument, "", "{}"), Spec(.dictionaryUpsert, "a", "1"))
        #expect(refusal([.attribute(.dictionaryUpsert, "x", "1"), set]) == nil)
        #expect(refusal([set, path]) == .subdocInvalidCombination)
        #expect(refusal([path, Spec(.deleteDocument)]) == .subdocInvalidCombination)
        #expect(refusal([path, path]) == nil)
        #expect(refusal([Spec(.get, "a"), Spec(.getDocument)]) == nil)
    }

    // MARK: Document flags

    @Test func lookupAllowsTwoDocumentFlags() {
        for bit in 0..<6 {
            let flag = DocumentFlags(rawValue: 1 << UInt8(bit))
            let isAllowed = flag == .accessesDeleted || flag == .readsReplica
            #expect((refusal([Spec(.get, "a")], flag) == nil) == isAllowed)
        }
    }

    @Test(
        arguments: [
            ([.adds, .makesDocument], false, Status.invalid), ([.adds], true, .invalid),
            ([.adds], false, nil), ([.makesDocument], true, nil),
            ([.createsAsDeleted], false, .invalid),
            ([.createsAsDeleted, .adds, .accessesDeleted], false, nil),
            ([.createsAsDeleted, .makesDocument], false, nil), ([.revives], false, .invalid),
            ([.revives, .accessesDeleted], false, nil),
            ([.revives, .accessesDeleted, .createsAsDeleted, .adds], false, .invalid),
            ([.readsReplica], false, .invalid),
        ] as [(DocumentFlags, Bool, Status?)]
    )
    func documentFlagsOfMutation(_ flags: DocumentFlags, _ hasCAS: Bool, _ status: Status?) {
        let specs = [Spec.attribute(.dictionaryUpsert, "a", "1")]
        #expect(refusal(specs, flags, hasCAS: hasCAS) == status)
    }

    @Test func tombstoneIsCreatedWithAttributesOnly() {
        let flags: DocumentFlags = [.createsAsDeleted, .adds]
        let attribute = Spec.attribute(.dictionaryUpsert, "a", "1")
        let refused = Status.subdocDeletedCannotHaveValue
        #expect(refusal([attribute], flags) == nil)
        #expect(refusal([attribute, Spec(.setDocument, "", "{}")], flags) == refused)
        #expect(refusal([.attribute(.replaceBodyWithAttribute, "a")], flags) == refused)
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
