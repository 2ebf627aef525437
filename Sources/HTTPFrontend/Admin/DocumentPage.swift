internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// A page of documents, sent row by row while they are read, so that memory holds one document
/// however large the reply is.
///
/// Every key has a row. A row without its document has the cause in `error` and `reason`; if both
/// are absent too, the document was deleted after its key was listed.
struct DocumentPage: Sendable {
    /// Rows are collected up to this size before they are sent, since many documents are small.
    private static let gatheredBytes = 64 << 10
    /// The most unreadable documents after which the page stops reading documents: each failed read
    /// takes up to ten seconds to time out.
    private static let failuresMax = 3

    let keys: [[UInt8]]
    let bucket: String
    /// Bytes of documents in the reply at most; further rows have keys only.
    let bytesMax: UInt64
    let showsSystemAttributes: Bool
    let service: AdministrationService

    var reply: Reply {
        Reply(
            status: 200,
            contentType: "application/json",
            body: .stream { isConnected, send in
                try await write(while: isConnected, send)
                return []
            }
        )
    }

    private func write(while isConnected: () -> Bool, _ send: Reply.Send) async throws {
        var output = Array("{\"rows\":[".utf8)
        var bytes: UInt64 = 0
        var failures = 0
        for (place, key) in keys.enumerated() {
            guard isConnected() else { return }
            if place > 0 { output.append(UInt8(ascii: ",")) }
            if bytes >= bytesMax {
                output += Self.row(key, without: Self.excludedByLimit(bytesMax)).bytes
            } else if failures >= Self.failuresMax {
                output += Self.row(key, without: Self.unreadable).bytes
            } else {
                switch await service.documents.perform(.read, on: key, inBucket: bucket) {
                case .found(let copy):
                    bytes += UInt64(copy.value.count)
                    output += row(key, copy).bytes
                case .refused(.notFound), .noBucket:
                    output += Self.row(key).bytes
                case .refused:
                    failures += 1
                    output += Self.row(key, without: Self.unreadable).bytes
                case .failed(let text):
                    output += Self.row(key, without: ("failed", text)).bytes
                case .written, .unchanged:
                    output += Self.row(key, without: ("failed", AdminRoutes.unexpected)).bytes
                }
            }
            guard output.count >= Self.gatheredBytes else { continue }
            try await send(output)
            output = []
        }
        try await send(output + Array("]}".utf8))
    }

    // MARK: Rows

    private static let unreadable = ("retry_needed", AdminRoutes.unreadableDocument)

    private static func excludedByLimit(_ bytesMax: UInt64) -> (String, String) {
        ("not_included", "The documents before it reach the requested \(bytesMax) bytes")
    }

    /// A row with the key only.
    static func row(_ key: [UInt8]) -> JSONText { .object(DocumentJSON.name("id", of: key)) }

    private static func row(_ key: [UInt8], without error: (String, String)) -> JSONText {
        let (code, reason) = error
        return .object(
            DocumentJSON.name("id", of: key) + [
                ("error", .string(code)), ("reason", .string(reason)),
            ]
        )
    }

    private func row(_ key: [UInt8], _ document: DocumentCopy) -> JSONText {
        let parts = DocumentJSON.Parts(document, showsSystemAttributes: showsSystemAttributes)
        let content: (String, JSONText) =
            parts.isJSON
            ? ("json", .rendered(parts.body)) : ("base64", DocumentJSON.base64(parts.body))
        let described = DocumentJSON.meta(key, document.meta, isJSON: parts.isJSON)
        let members = [("meta", described), content] + parts.attributes
        return .object(DocumentJSON.name("id", of: key) + [("doc", .object(members))])
    }
}
