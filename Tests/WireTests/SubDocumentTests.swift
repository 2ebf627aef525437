import Bytes
import Testing
import Wire

/// Sub-document requests and answers, byte for byte.
@Suite struct SubDocumentTests {
    /// A request with the key `k`.
    private static func frame(_ opcode: UInt8, _ extras: String, _ value: [UInt8]) -> [UInt8] {
        let extras = hex(extras)
        let body = extras + Array("k".utf8) + value
        return written { writer in
            writer.append(UInt8(0x80))
            writer.append(opcode)
            writer.append(bigEndian: UInt16(1))
            writer.append(UInt8(extras.count))
            writer.append(UInt8(0))
            writer.append(bigEndian: UInt16(0))
            writer.append(bigEndian: UInt32(body.count))
            writer.append(bigEndian: UInt32(0))
            writer.append(bigEndian: UInt64(0))
            writer.append(body)
        }
    }

    private static func lookup(_ opcode: UInt8, _ flags: UInt8, _ path: String) -> [UInt8] {
        [opcode, flags, 0, UInt8(path.utf8.count)] + Array(path.utf8)
    }

    private static func mutation(
        _ opcode: UInt8,
        _ flags: UInt8,
        _ path: String,
        _ value: String = ""
    ) -> [UInt8] {
        [opcode, flags, 0, UInt8(path.utf8.count), 0, 0, 0, UInt8(value.utf8.count)]
            + Array(path.utf8) + Array(value.utf8)
    }

    /// A decoded request in words, or the status that refuses it.
    private static func decode(_ opcode: UInt8, _ extras: String, _ value: [UInt8]) -> String {
        frame(opcode, extras, value).withView { view in
            guard case .frame(let frame) = FrameDecoder().next(in: view) else { return "no frame" }
            switch SubDocumentRequest.decode(frame) {
            case .refused(let status): return "\(status)"
            case .decoded(let request):
                let specs = request.specs.map { spec in
                    let flags = spec.flags.rawValue == 0 ? "" : "/\(spec.flags.rawValue)"
                    let value = spec.operation.isMutation ? "=\(spec.value.text)" : ""
                    return "\(spec.operation)\(flags) \(spec.path.text)\(value)"
                }
                let parts = [
                    request.expiry == 0 ? nil : "expiry \(request.expiry)",
                    request.userFlags.map { "flags \($0)" },
                    request.documentFlags.isEmpty
                        ? nil : "document \(request.documentFlags.rawValue)",
                ]
                let kind = "\(request.form) \(request.isMutation ? "mutation" : "lookup")"
                return ([kind] + parts.compactMap { $0 } + specs).joined(separator: ", ")
            }
        }
    }

    // MARK: Single requests

    @Test func extrasOfASingleRequestHaveFourLengths() {
        let path = Array("a.b5".utf8)
        #expect(Self.decode(0xc5, "0003 00", Array("a.b".utf8)) == "single lookup, get a.b")
        #expect(
            Self.decode(0xc5, "0003 04 04", Array("a.b".utf8))
                == "single lookup, document 4, get/4 a.b"
        )
        #expect(Self.decode(0xc8, "0003 01", path) == "single mutation, dictionaryUpsert/1 a.b=5")
        #expect(
            Self.decode(0xcf, "0003 00 00000e10", path)
                == "single mutation, expiry 3600, counter a.b=5"
        )
        #expect(
            Self.decode(0xca, "0003 00 00000000 02", path)
                == "single mutation, document 2, replace a.b=5"
        )
    }

    @Test func eachSingleOpcodeIsAnOperation() {
        for opcode in Array(UInt8(0xc5)...0xcf) + [0xd2, 0xd3] {
            let text = Self.decode(opcode, "0001 00", Array("a".utf8))
            #expect(text.hasPrefix("single"), "\(opcode): \(text)")
        }
    }

    @Test(arguments: [
        ("0003 00", "ab"), ("0001 40", "ab"), ("0001 02", "ab"), ("0001 00 40", "ab"),
        ("0001 00 00000000", "ab"), ("00", "ab"),
    ])
    func malformedSingleLookupIsInvalid(_ extras: String, _ value: String) {
        #expect(Self.decode(0xc5, extras, Array(value.utf8)) == "invalid")
    }

    // MARK: Multi requests

    @Test func lookupHasPathsWithoutValues() {
        let specs =
            Self.lookup(0xc5, 4, "_sync") + Self.lookup(0xc6, 0, "a") + Self.lookup(0xd2, 0, "")
            + Self.lookup(0x00, 0, "")
        #expect(
            Self.decode(0xd0, "04", specs)
                == "multi lookup, document 4, get/4 _sync, exists a, getCount , getDocument "
        )
        #expect(Self.decode(0xd0, "", Self.lookup(0xc5, 0, "a")) == "multi lookup, get a")
    }

    @Test func mutationHasEveryLengthOfExtras() {
        let spec = Self.mutation(0xc8, 0x14, "_sync.cas", "\"${Mutation.CAS}\"")
        let end = "dictionaryUpsert/20 _sync.cas=\"${Mutation.CAS}\""
        for (extras, text) in [
            ("", ""), ("02", "document 2, "), ("0000000a", "expiry 10, "),
            ("0000000a 01", "expiry 10, document 1, "),
            ("0000000a 00000007", "expiry 10, flags 7, "),
            ("0000000a 00000007 0c", "expiry 10, flags 7, document 12, "),
        ] {
            #expect(Self.decode(0xd1, extras, spec) == "multi mutation, \(text)\(end)")
        }
    }

    @Test func wholeDocumentOperationsAreDecoded() {
        let specs = Self.mutation(0x01, 0, "", "{}") + Self.mutation(0x04, 0, "")
        #expect(
            Self.decode(0xd1, "", specs)
                == "multi mutation, setDocument ={}, deleteDocument ="
        )
    }

    @Test func seventeenPathsOrNoneAreAnInvalidCombination() {
        let spec = Self.lookup(0xc6, 0, "a")
        let sixteen = Array(repeating: spec, count: 16).flatMap { $0 }
        #expect(Self.decode(0xd0, "", sixteen).hasPrefix("multi lookup"))
        #expect(Self.decode(0xd0, "", sixteen + spec) == "subdocInvalidCombination")
        #expect(Self.decode(0xd0, "", []) == "subdocInvalidCombination")
        #expect(Self.decode(0xd1, "", []) == "subdocInvalidCombination")
    }

    @Test func lookupsAndMutationsAreNotMixed() {
        let invalid = "subdocInvalidCombination"
        #expect(Self.decode(0xd0, "", Self.lookup(0xc8, 0, "a")) == invalid)
        #expect(Self.decode(0xd0, "", Self.lookup(0x04, 0, "")) == invalid)
        #expect(Self.decode(0xd1, "", Self.mutation(0xc5, 0, "a")) == invalid)
        #expect(Self.decode(0xd1, "", Self.mutation(0x02, 0, "a")) == invalid)
    }

    @Test func truncatedPathOfAnyLengthIsInvalid() {
        let lookup = Self.lookup(0xc5, 0, "abc")
        for count in 1..<lookup.count {
            #expect(Self.decode(0xd0, "", Array(lookup.prefix(count))) == "invalid")
        }
        let mutation = Self.mutation(0xc8, 0, "abc", "12")
        for count in 1..<mutation.count {
            #expect(Self.decode(0xd1, "", Array(mutation.prefix(count))) == "invalid")
        }
    }

    @Test func unknownFlagsAreInvalid() {
        for bit in [UInt8(0x02), 0x08, 0x40, 0x80] {
            #expect(Self.decode(0xd0, "", Self.lookup(0xc5, bit, "a")) == "invalid")
        }
        for extras in ["40", "80"] {
            #expect(Self.decode(0xd0, extras, Self.lookup(0xc5, 0, "a")) == "invalid")
            #expect(Self.decode(0xd1, extras, Self.mutation(0xc9, 0, "a")) == "invalid")
        }
    }

    // MARK: Answers

    @Test func resultsAreEncoded() {
        let lookup = written { writer in
            Array("17".utf8).withView {
                SubDocumentEncoder.appendLookup(.success, $0, to: writer)
            }
            SubDocumentEncoder.appendLookup(.subdocPathNotFound, .empty, to: writer)
        }
        #expect(lookup == hex("0000 00000002 3137 00c0 00000000"))
        let mutation = written { writer in
            Array("17".utf8).withView {
                SubDocumentEncoder.appendMutation(index: 3, $0, to: writer)
            }
        }
        #expect(mutation == hex("03 0000 00000002 3137"))
        let failure = written {
            SubDocumentEncoder.appendFailure(index: 2, .subdocPathExists, to: $0)
        }
        #expect(failure == hex("02 00c9"))
    }

    @Test func everySubdocumentStatusIsKnown() {
        for number in UInt16(0xc0)...0xd8 {
            #expect(Status(rawValue: number) != nil)
        }
    }
}
