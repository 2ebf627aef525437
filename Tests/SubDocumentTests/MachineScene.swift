import Bytes
import SubDocument
import Vocabulary
import Wire

/// One path of a request, for tables.
struct Spec: Sendable {
    let operation: SubDocumentOperation
    var flags: PathFlags = []
    var path = ""
    var value = ""

    init(
        _ operation: SubDocumentOperation,
        _ path: String = "",
        _ value: String = "",
        _ flags: PathFlags = []
    ) {
        self.operation = operation
        self.flags = flags
        self.path = path
        self.value = value
    }

    /// A path of an attribute.
    static func attribute(
        _ operation: SubDocumentOperation,
        _ path: String,
        _ value: String = "",
        _ flags: PathFlags = []
    ) -> Spec {
        Spec(operation, path, value, flags.union(.attribute))
    }

    static func macro(_ path: String, _ value: String) -> Spec {
        attribute(.dictionaryUpsert, path, value, .expandsMacros)
    }

    fileprivate func append(to writer: ByteWriter) {
        writer.append(operation.rawValue)
        writer.append(flags.rawValue)
        writer.append(bigEndian: UInt16(path.utf8.count))
        if operation.isMutation { writer.append(bigEndian: UInt32(value.utf8.count)) }
        writer.append(text: path)
        if operation.isMutation { writer.append(text: value) }
    }
}

/// Encodes the frame of a request with several paths and calls `body` with the decoded request.
func withRequest<Result>(
    _ specs: [Spec],
    _ flags: DocumentFlags = [],
    _ body: (SubDocumentRequest) -> Result
) -> Result {
    let isMutation = specs.contains { $0.operation.isMutation }
    return withFrame(isMutation ? 0xd1 : 0xd0, extras: [flags.rawValue], body) { writer in
        for spec in specs { spec.append(to: writer) }
    }
}

/// Encodes the frame of a request with one path and calls `body` with the decoded request.
func withSingleRequest<Result>(
    _ spec: Spec,
    _ flags: DocumentFlags = [],
    _ body: (SubDocumentRequest) -> Result
) -> Result {
    let count = UInt16(spec.path.utf8.count)
    let extras = [
        UInt8(count >> 8), UInt8(truncatingIfNeeded: count), spec.flags.rawValue, flags.rawValue,
    ]
    return withFrame(spec.operation.rawValue, extras: extras, body) { writer in
        writer.append(text: spec.path)
        writer.append(text: spec.value)
    }
}

private func withFrame<Result>(
    _ opcode: UInt8,
    extras: [UInt8],
    _ body: (SubDocumentRequest) -> Result,
    _ appendValue: (ByteWriter) -> Void
) -> Result {
    let writer = ByteWriter()
    // The request borrows the writer's memory.
    defer { withExtendedLifetime(writer) {} }
    writer.append(UInt8(0x80))
    writer.append(opcode)
    writer.append(bigEndian: UInt16(1))
    writer.append(UInt8(extras.count))
    writer.append(UInt8(0))
    writer.append(bigEndian: UInt16(0))
    writer.append(bigEndian: UInt32(0))
    writer.append(bigEndian: UInt32(0))
    writer.append(bigEndian: UInt64(0))
    writer.append(extras)
    writer.append(UInt8(ascii: "k"))
    appendValue(writer)
    writer.replace(at: 8, bigEndian: UInt32(writer.count - 24))
    guard case .frame(let frame) = FrameDecoder().next(in: writer.view),
        case .decoded(let request) = SubDocumentRequest.decode(frame)
    else { preconditionFailure("the scene encodes valid requests") }
    return body(request)
}

/// A version of a document, in words.
struct Version: Equatable, Sendable {
    var attributes: [String: String] = [:]
    var body = ""
    var isDeleted = false
    /// Nil for JSON if the body is not empty.
    var isJSON: Bool?

    static let uuid: UInt64 = 0x0102_0304_0506_0708

    var stored: (bytes: [UInt8], datatype: Datatype) {
        let writer = ByteWriter()
        let pairs = XattrWriter.begin(writer)
        for (key, value) in attributes.sorted(by: { $0.key < $1.key }) {
            Array(key.utf8).withView { key in
                Array(value.utf8).withView { pairs.append(key: key, value: $0) }
            }
        }
        var datatype: Datatype = pairs.end() ? .xattr : []
        writer.append(text: body)
        if isJSON ?? !body.isEmpty { datatype.insert(.json) }
        return (writer.bytes, datatype)
    }

    /// Calls `body` with the version as it is stored: CAS 0x1122, seqno 9, revision 3, flags 7.
    func withView<Result>(_ body: (DocumentView) -> Result) -> Result {
        let (bytes, datatype) = stored
        return bytes.withView { value in
            let meta = DocumentMeta(
                seqno: Seqno(9),
                cas: CAS(0x1122),
                revision: 3,
                flags: 7,
                expiry: 50,
                datatype: datatype,
                isDeleted: isDeleted
            )
            return body(DocumentView(meta: meta, value: value))
        }
    }

    static let context = MacroContext(uuid: VBucketUUID(uuid), seconds: 1_000)
}

/// What a mutation did: the new version, the text of the answer, or the failure.
enum Mutated: Equatable {
    case version(Version, results: String = "", patches: [MacroPatch] = [])
    case failed(Int, Status)
    case refused(Status)
}

/// Executes a mutation on a version; nil if there is none.
func mutate(
    _ specs: [Spec],
    _ flags: DocumentFlags = [],
    on version: Version? = nil,
    writesSystemAttributes: Bool = true
) -> Mutated {
    withRequest(specs, flags) { request in
        func run(_ view: DocumentView?) -> Mutated {
            let (output, results) = (ByteWriter(), ByteWriter())
            defer { withExtendedLifetime((output, results)) {} }
            let input = MutationMachine.Input(
                request,
                context: Version.context,
                jsonBodies: .max,
                writesSystemAttributes: writesSystemAttributes
            )
            let outcome = MutationMachine.run(input, on: view, to: output, results: results)
            switch outcome {
            case .refused(let status): return .refused(status)
            case .failed(let index, let status): return .failed(index, status)
            case .changed(let change):
                return .version(
                    Version(output.view, change),
                    results: results.view.text,
                    patches: change.patches
                )
            }
        }
        return version?.withView { run($0) } ?? run(nil)
    }
}

extension Version {
    fileprivate init(_ value: ByteView, _ change: MutationMachine.Change) {
        if change.datatype.contains(.xattr) {
            for (key, value) in XattrBlob(stored: value) { attributes[key.text] = value.text }
        }
        body = XattrBlob.body(of: value, change.datatype).text
        isDeleted = change.isDeleted
        let isJSON = change.datatype.contains(.json)
        self.isJSON = isJSON == !body.isEmpty ? nil : isJSON
    }
}

/// The result of one path of a lookup.
struct Found: Equatable, ExpressibleByStringLiteral {
    let status: Status
    let text: String

    init(_ status: Status, _ text: String = "") {
        self.status = status
        self.text = text
    }

    init(stringLiteral text: String) {
        self.init(.success, text)
    }
}

/// The status of a lookup's answer, and the result of each path.
func lookUp(
    _ specs: [Spec],
    _ flags: DocumentFlags = .accessesDeleted,
    on version: Version,
    readsSystemAttributes: Bool = true
) -> (status: Status, results: [Found]) {
    withRequest(specs, flags) { request in
        version.withView { view in
            let output = ByteWriter()
            defer { withExtendedLifetime(output) {} }
            let status = LookupMachine.run(
                request,
                on: view,
                context: Version.context,
                readsSystemAttributes: readsSystemAttributes,
                to: output
            )
            var reader = ByteReader(output.view)
            var results: [Found] = []
            while let number = reader.bigEndian(UInt16.self),
                let count = reader.bigEndian(UInt32.self), let value = reader.bytes(Int(count))
            {
                results.append(Found(Status(rawValue: number) ?? .internalError, value.text))
            }
            return (status, results)
        }
    }
}
