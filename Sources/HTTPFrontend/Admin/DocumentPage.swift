internal import Bytes
internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// A page of documents, sent row by row while they are read, so that the answer is as long as the
/// documents are and memory holds one of them.
///
/// Every key has its row. A row without its document says why in `error` and `reason`; one that
/// says nothing is of a document that was deleted after it was listed.
struct DocumentPage: Sendable {
    /// Rows are gathered up to this before they are sent: many documents are small.
    private static let gatheredBytes = 64 << 10
    /// Documents that cannot be read before the page reads no further: each takes up to ten
    /// seconds to find out.
    private static let failuresMax = 3

    let keys: [[UInt8]]
    let bucket: String
    /// Bytes of documents that the client wants at most; the rows after them have keys only.
    let bytesMax: UInt64
    let service: AdministrationService

    var reply: Reply {
        Reply(
            status: 200,
            contentType: "application/json",
            body: .stream { isHeard, send in try await write(while: isHeard, send) }
        )
    }

    private func write(while isHeard: () -> Bool, _ send: Reply.Send) async throws {
        var output = Array("{\"rows\":[".utf8)
        var bytes: UInt64 = 0
        var failures = 0
        for (place, key) in keys.enumerated() {
            guard isHeard() else { return }
            if place > 0 { output.append(UInt8(ascii: ",")) }
            if bytes >= bytesMax {
                output += Self.row(key, without: Self.beyond(bytesMax)).bytes
            } else if failures >= Self.failuresMax {
                output += Self.row(key, without: Self.unread).bytes
            } else {
                switch await service.perform(.read, on: key, inBucket: bucket) {
                case .found(let copy):
                    bytes += UInt64(copy.value.count)
                    output += Self.row(key, copy.meta, copy.value).bytes
                case .refused(.notFound), .noBucket:
                    output += Self.row(key).bytes
                case .refused:
                    failures += 1
                    output += Self.row(key, without: Self.unread).bytes
                case .failed(let text):
                    output += Self.row(key, without: ("failed", text)).bytes
                case .written, .unchanged:
                    output += Self.row(key, without: ("failed", Routes.unexpected)).bytes
                }
            }
            guard output.count >= Self.gatheredBytes else { continue }
            try await send(output)
            output = []
        }
        try await send(output + Array("]}".utf8))
    }

    // MARK: Rows

    private static let unread = ("retry_needed", Routes.unreadableDocument)

    private static func beyond(_ bytesMax: UInt64) -> (String, String) {
        ("not_included", "The documents before it have the \(bytesMax) bytes asked for")
    }

    /// The row of a key alone.
    static func row(_ key: [UInt8]) -> JSONText { .object(DocumentJSON.name("id", of: key)) }

    private static func row(_ key: [UInt8], without error: (String, String)) -> JSONText {
        let (code, reason) = error
        return .object(
            DocumentJSON.name("id", of: key) + [
                ("error", .string(code)), ("reason", .string(reason)),
            ]
        )
    }

    private static func row(_ key: [UInt8], _ meta: DocumentMeta, _ value: [UInt8]) -> JSONText {
        let isJSON = DocumentJSON.isJSON(value)
        let content: (String, JSONText) =
            isJSON ? ("json", .rendered(value)) : ("base64", DocumentJSON.base64(value))
        let described = DocumentJSON.meta(key, meta, isJSON: isJSON)
        return .object(
            DocumentJSON.name("id", of: key) + [("doc", .object([("meta", described), content]))]
        )
    }
}
