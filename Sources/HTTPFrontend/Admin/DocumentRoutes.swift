internal import Bytes
internal import ClusterService
internal import Foundation
internal import JSON
internal import Orchestration
internal import Vocabulary

/// Documents, one by one and in pages, for the page in the browser.
extension Routes {
    /// Rows of a page, and rows before it, at most: what Couchbase's console asks for at most.
    private static let rowsMax: UInt64 = 1_000
    /// The flags that clients of all languages read as JSON.
    private static let jsonFlags: UInt32 = 0x0200_0000

    static let documents: [Route] = [
        Route(
            .get,
            "/pools/default/buckets/*/docs",
            .administrator("cluster.bucket[.].data.docs!read"),
            needsCluster: true,
            listDocuments
        ),
        Route(
            .get,
            "/pools/default/buckets/*/docs/*",
            .administrator("cluster.bucket[.].data.docs!read"),
            needsCluster: true,
            readDocument
        ),
        Route(
            .post,
            "/pools/default/buckets/*/docs/*",
            .administrator("cluster.bucket[.].data.docs!upsert"),
            needsCluster: true,
            writeDocument
        ),
        Route(
            .delete,
            "/pools/default/buckets/*/docs/*",
            .administrator("cluster.bucket[.].data.docs!delete"),
            needsCluster: true
        ) { call in
            guard isKey(call.captures[1]) else { return badRequest(keyRule) }
            let name = call.capture(0)
            return reply(await call.service.deleteDocument(call.captures[1], inBucket: name))
        },
    ]

    // MARK: A page

    @Sendable private static func listDocuments(_ call: Call) async -> Reply {
        let query = call.request.query
        let limit = query["limit"].map(FormParameters.number) ?? rowsMax
        let skip = query["skip"].map(FormParameters.number) ?? 0
        guard let limit, let skip, limit <= rowsMax, skip <= rowsMax,
            let from = key(query["startkey"] ?? query["start_key"]),
            let to = key(query["endkey"] ?? query["end_key"])
        else { return badRequest("bad request") }
        let withDocuments = query["include_docs"] == "true"
        let listing = await call.service.listDocuments(
            bucket: call.capture(0),
            from: from.bytes,
            to: to.bytes,
            inclusiveEnd: query["inclusive_end"] != "false",
            skip: Int(skip),
            limit: Int(limit),
            withDocuments: withDocuments
        )
        switch listing {
        case .rows(let rows):
            return .json(["rows": .array(rows.map { row($0, withDocuments: withDocuments) })])
        case .noBucket: return .notFound
        case .temporaryFailure: return retry("max_retry", unreadable)
        case .failed(let text): return failed(text)
        }
    }

    private static func row(_ row: DocumentListing.Row, withDocuments: Bool) -> JSONText {
        let id = String(decoding: row.key, as: UTF8.self)
        var members: [(String, JSONText)] = [("id", .string(id))]
        if withDocuments, let meta = row.meta, let value = row.value {
            let isJSON = isJSON(value)
            let content: (String, JSONText) =
                isJSON ? ("json", .rendered(value)) : ("base64", base64(value))
            members.append(("doc", .object([("meta", self.meta(id, meta, isJSON)), content])))
        }
        return .object(members)
    }

    /// A key written as JSON text; nil where it is something else.
    private static func key(_ text: String?) -> (bytes: [UInt8]?, Void)? {
        guard let text else { return (nil, ()) }
        do {
            let key = try JSONDecoder().decode(String.self, from: Data(text.utf8))
            return (Array(key.utf8), ())
        } catch {
            return nil
        }
    }

    // MARK: One document

    @Sendable private static func readDocument(_ call: Call) async -> Reply {
        let key = call.captures[1]
        guard isKey(key) else { return badRequest(keyRule) }
        let id = String(decoding: key, as: UTF8.self)
        switch await call.service.readDocument(key, inBucket: call.capture(0)) {
        case .found(let meta, let value):
            // As text inside JSON: numbers beyond a browser's survive, and so does every blank.
            let isJSON = isJSON(value)
            let text = String(decoding: value, as: UTF8.self)
            let content: (String, JSONText) =
                isJSON ? ("json", .string(text)) : ("base64", base64(value))
            return .json(.object([("meta", self.meta(id, meta, isJSON)), content]))
        case .notFound: return .empty(404)
        case .noBucket: return .notFound
        case .temporaryFailure, .notHere:
            return retry("retry_needed", unreadable)
        case .failed(let text): return failed(text)
        }
    }

    @Sendable private static func writeDocument(_ call: Call) async -> Reply {
        let key = call.captures[1]
        guard isKey(key) else { return badRequest(keyRule) }
        guard call.request.contentType == "application/x-www-form-urlencoded" else {
            return badRequest("The document comes as a form with a field named value")
        }
        let form = call.request.form
        guard let text = form["value"] else { return badRequest("The field value is missing") }
        let flags = form["flags"].map(FormParameters.number) ?? UInt64(jsonFlags)
        let expiry = form["expiry"].map(FormParameters.number) ?? 0
        guard let flags = flags.flatMap(UInt32.init(exactly:)),
            let expiry = expiry.flatMap(UInt32.init(exactly:))
        else { return badRequest("flags and expiry are numbers of 32 bits") }
        let value = Array(text.utf8)
        if flags == jsonFlags, !isJSON(value) {
            return badRequest("The value is not valid JSON")
        }
        let writing = await call.service.writeDocument(
            key,
            value: value,
            flags: flags,
            expiry: expiry,
            preserveExpiry: form["preserveTTL"] == "true",
            inBucket: call.capture(0)
        )
        return reply(writing)
    }

    private static func reply(_ writing: DocumentWriting) -> Reply {
        switch writing {
        case .written: .json([])
        case .notFound: .empty(404)
        case .noBucket: .notFound
        case .locked: retry("retry_needed", "The document is locked")
        case .tooBig: badRequest("The value is larger than \(Limits.valueBytesMax >> 20) MiB")
        case .temporaryFailure, .notHere:
            retry("retry_needed", unreadable)
        case .failed(let text): failed(text)
        }
    }

    // MARK: Parts

    /// Of a document or of all: there is no telling which node it was.
    private static let unreadable =
        "The bucket is busy or warming up, or a node that serves some of it does not answer"

    private static let keyRule = "A document's id has 1 to \(Limits.keyBytesMax) bytes"

    private static func isKey(_ key: [UInt8]) -> Bool {
        (1...Limits.keyBytesMax).contains(key.count)
    }

    private static func meta(_ id: String, _ meta: DocumentMeta, _ isJSON: Bool) -> JSONText {
        let numbers = hex(meta.cas.value, 16) + hex(UInt64(meta.expiry), 8)
        let revision = "\(meta.revision)-\(numbers)\(hex(UInt64(meta.flags), 8))"
        var members: [(String, JSONText)] = [
            ("id", .string(id)),
            ("rev", .string(revision)),
            ("expiration", .number(meta.expiry)),
            ("flags", .number(meta.flags)),
        ]
        if isJSON { members.append(("type", "json")) }
        return .object(members)
    }

    private static func hex(_ number: UInt64, _ digits: Int) -> String {
        let text = String(number, radix: 16)
        return String(repeating: "0", count: max(0, digits - text.utf8.count)) + text
    }

    private static func base64(_ value: [UInt8]) -> JSONText {
        let text = value.withUnsafeBytes { Base64.encode(ByteView($0)) }
        return .string(String(decoding: text, as: UTF8.self))
    }

    /// Whether a value may stand inside our JSON as it is.
    private static func isJSON(_ value: [UInt8]) -> Bool {
        value.withUnsafeBytes { JSONValidator().isDocument(ByteView($0)) }
    }

    private static func badRequest(_ reason: String) -> Reply {
        .json(["error": "bad_request", "reason": .string(reason)], status: 400)
    }

    private static func retry(_ error: String, _ reason: String) -> Reply {
        .json(["error": .string(error), "reason": .string(reason)], status: 503)
    }

    private static func failed(_ reason: String) -> Reply {
        .json(["error": "failed", "reason": .string(reason)], status: 500)
    }
}
