import Bytes
import JSON
import SubDocument
import TestWorld
import Vocabulary
import Wire

/// Sub-document requests on a version of a document: any bytes are decoded or refused, and executed
/// without a crash.
///
/// The first byte chooses the version and whether the body is JSON; the rest is a frame without its
/// lengths: opcode, bytes of extras, extras, value.
///
/// - A stored form has valid attributes and is within the bounds; a JSON body stays JSON.
/// - Macros have their 18 characters within the attributes.
/// - A failure has an index of the request.
final class SubDocumentTarget {
    private let frame = ByteWriter()
    private let output = ByteWriter()
    private let results = ByteWriter()
    private let live: [UInt8]
    private let tombstone: [UInt8]
    private static let body = Array(#"{"a":{"b":[1,"x",{"c":null}]},"n":17,"l":[]}"#.utf8)
    private static let context = MacroContext(uuid: VBucketUUID(7), seconds: 1_000)

    init() {
        let writer = ByteWriter()
        let pairs = XattrWriter.begin(writer)
        for (key, value) in [("_sync", #"{"rev":"1-a","cas":"0x00"}"#), ("user", "[1,2]")] {
            Array(key.utf8).withUnsafeBytes { key in
                Array(value.utf8).withUnsafeBytes { value in
                    pairs.append(key: ByteView(key), value: ByteView(value))
                }
            }
        }
        _ = pairs.end()
        tombstone = writer.bytes
        live = writer.bytes + SubDocumentTarget.body
    }

    func run(_ view: ByteView) {
        guard view.count >= 3, Int(view[2]) <= view.count - 3 else { return }
        write(view)
        guard case .frame(let frame) = FrameDecoder().next(in: frame.view) else {
            fatalError("the target writes a whole frame")
        }
        guard let operation = frame.opcode, isSubDocument(operation),
            case .decoded(let request) = SubDocumentRequest.decode(frame)
        else { return }
        let allowance = RequestCheck.Allowance(attributes: true)
        guard RequestCheck.refusal(of: request, hasCAS: false, allowance) == nil else { return }
        let isDeleted = view[0] & 3 == 1
        let isMissing = view[0] & 3 == 0 || isDeleted && !accessesDeleted(request)
        let isJSON = view[0] & 4 == 0 && !isDeleted
        (isDeleted ? tombstone : live).withUnsafeBytes { buffer in
            let meta = DocumentMeta(
                seqno: Seqno(9),
                cas: CAS(5),
                datatype: isJSON ? [.json, .xattr] : .xattr,
                isDeleted: isDeleted
            )
            let version = DocumentView(meta: meta, value: ByteView(buffer))
            if request.isMutation {
                mutate(request, isMissing ? nil : version)
            } else if !isMissing {
                output.removeAll()
                _ = LookupMachine.run(
                    request,
                    on: version,
                    context: SubDocumentTarget.context,
                    readsSystemAttributes: true,
                    to: output
                )
            }
        }
    }

    private func accessesDeleted(_ request: SubDocumentRequest) -> Bool {
        request.documentFlags.contains(.accessesDeleted)
    }

    private func isSubDocument(_ opcode: Opcode) -> Bool {
        (0xc5...0xd3).contains(opcode.rawValue)
    }

    private func write(_ view: ByteView) {
        let rest = view.dropFirst(3)
        frame.removeAll()
        frame.append(UInt8(0x80))
        frame.append(view[1])
        frame.append(bigEndian: UInt16(1))
        frame.append(view[2])
        frame.append(UInt8(0))
        frame.append(bigEndian: UInt16(0))
        frame.append(bigEndian: UInt32(rest.count + 1))
        frame.append(bigEndian: UInt32(0))
        frame.append(bigEndian: UInt64(0))
        frame.append(rest.slice(0, Int(view[2])))
        frame.append(UInt8(ascii: "k"))
        frame.append(rest.dropFirst(Int(view[2])))
    }

    private func mutate(_ request: SubDocumentRequest, _ version: DocumentView?) {
        output.removeAll()
        results.removeAll()
        var jsonBodies: UInt16 = 0
        for (index, spec) in request.specs.enumerated() where spec.operation == .setDocument {
            if JSONGrammar.accepts(spec.value) { jsonBodies |= 1 << UInt16(index) }
        }
        let input = MutationMachine.Input(
            request,
            context: SubDocumentTarget.context,
            jsonBodies: jsonBodies,
            writesSystemAttributes: true
        )
        switch MutationMachine.run(input, on: version, to: output, results: results) {
        case .refused: break
        case .failed(let index, let status):
            require(status != .success, "a path failed with success")
            require(index < Array(request.specs).count, "path \(index) is none of the request")
        case .changed(let change): check(change)
        }
    }

    private func check(_ change: MutationMachine.Change) {
        let value = output.view
        var attributeBytes = 0
        if change.datatype.contains(.xattr) {
            guard let blob = XattrBlob(value) else { fatalError("the attributes are invalid") }
            require(!blob.isEmpty, "an empty section of attributes")
            for (_, text) in blob {
                require(JSONGrammar.accepts(text), "an attribute is no JSON: \(text.text)")
            }
            attributeBytes = blob.byteCount
        }
        require(XattrBlob.isWithinLimits(value, change.datatype), "the value is beyond the bounds")
        let body = value.dropFirst(attributeBytes)
        require(!change.isDeleted || body.isEmpty, "a tombstone has a body")
        require(
            !change.datatype.contains(.json) || JSONGrammar.accepts(body),
            "the body is no JSON: \(body.text)"
        )
        for patch in change.patches {
            require(patch.offset + 18 <= attributeBytes, "a macro is outside of the attributes")
            require(
                value.slice(patch.offset, 18).text == "0x0000000000000000",
                "a macro has no place"
            )
        }
    }
}
