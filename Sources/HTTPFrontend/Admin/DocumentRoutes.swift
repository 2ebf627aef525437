internal import Bytes
internal import ClusterService
internal import Foundation
internal import JSON
internal import Orchestration
internal import Vocabulary

/// Documents, single and in pages, for the console.
extension AdminRoutes {
    /// Maximum of `limit` and of `skip`: Couchbase's bound for its console.
    private static let rowsMax: UInt64 = 1_000
    /// The flags that clients of all languages read as JSON.
    private static let jsonFlags: UInt32 = 0x0200_0000
    /// Query fields with a page's bounds as bytes, for keys that a JSON string cannot represent.
    private static let rawKeys: Set<String> = ["startkey_docid", "endkey_docid"]

    static let documents: [Route] = [
        Route.ofBucket(
            .get,
            "/docs",
            permission: ".data.docs!read",
            rawQuery: rawKeys,
            handler: listDocuments
        ),
        Route.ofBucket(.get, "/docs/<key>", permission: ".data.docs!read", handler: readDocument),
        Route.ofBucket(
            .post,
            "/docs/<key>",
            permission: ".data.docs!upsert",
            body: .document,
            handler: writeDocument
        )
        .accepting(["value", "flags", "expiry", "preserveTTL"]),
        Route.ofBucket(.delete, "/docs/<key>", permission: ".data.docs!delete") { call in
            guard isKey(call.captures[1]) else { return badRequest(keyRule) }
            guard let precondition = precondition(of: call.request), precondition != .absent else {
                return badRequest(RESTRequest.preconditionRule)
            }
            var cas = CAS.none
            if case .version(let version) = precondition { cas = version }
            let outcome = await call.service.documents.perform(
                .delete(cas: cas),
                on: call.captures[1],
                inBucket: call.capture(0)
            )
            return reply(outcome, precondition)
        }.accepting(),
    ]

    // MARK: A page

    @Sendable private static func listDocuments(_ call: Call) async -> Reply {
        let query = call.request.query
        let limit = query["limit"].map(FormParameters.number) ?? rowsMax
        let skip = query["skip"].map(FormParameters.number) ?? 0
        guard let limit, let skip, limit <= rowsMax, skip <= rowsMax,
            let from = bound(["startkey", "start_key"], raw: "startkey_docid", call.request),
            let to = bound(["endkey", "end_key"], raw: "endkey_docid", call.request)
        else { return badRequest("bad request") }
        let bytesMax = query["docs_bytes"].map(FormParameters.number) ?? UInt64.max
        guard let bytesMax else { return badRequest("docs_bytes is a number of bytes") }
        let bucket = call.capture(0)
        let listing = await call.service.documents.list(
            bucket: bucket,
            from: from.bytes,
            to: to.bytes,
            inclusiveEnd: query["inclusive_end"] != "false",
            skip: Int(skip),
            limit: Int(limit)
        )
        let keys: [[UInt8]]
        switch listing {
        case .keys(let found): keys = found
        case .noBucket: return .notFound
        case .temporaryFailure: return retry("max_retry", unreadableDocument)
        case .failed(let text): return failed(text)
        }
        guard query["include_docs"] == "true" else {
            return .json(["rows": .array(keys.map(DocumentPage.row))])
        }
        let page = DocumentPage(
            keys: keys,
            bucket: bucket,
            bytesMax: bytesMax,
            showsSystemAttributes: call.rights.allows(systemAttributes(of: bucket)),
            service: call.service
        )
        return page.reply
    }

    /// One end of a page.
    private enum Bound {
        case open
        case key([UInt8])

        var bytes: [UInt8]? {
            if case .key(let bytes) = self { bytes } else { nil }
        }
    }

    /// The first or last key of a page.
    ///
    /// - Parameters:
    ///   - names: The fields that have the key as JSON text; the first present one is used.
    ///   - raw: The field that has the key's bytes, used if none of `names` is present.
    ///   - request: The request.
    /// - Returns: The bound; nil if the field is not a JSON string.
    private static func bound(
        _ names: [String],
        raw: String,
        _ request: RESTRequest
    ) -> Bound? {
        guard let text = names.lazy.compactMap({ request.query[$0] }).first else {
            return request.queryFields[raw].map(Bound.key) ?? .open
        }
        do {
            let key = try JSONDecoder().decode(String.self, from: Data(text.utf8))
            return .key(Array(key.utf8))
        } catch {
            return nil
        }
    }

    // MARK: One document

    /// The permission to read system attributes, which a reader of documents need not have.
    private static func systemAttributes(of bucket: String) -> Permission {
        Permission(.bucket(bucket), ["data", "sxattr"], operation: "read")
    }

    @Sendable private static func readDocument(_ call: Call) async -> Reply {
        let key = call.captures[1]
        guard isKey(key) else { return badRequest(keyRule) }
        let outcome = await call.service.documents.perform(
            .read,
            on: key,
            inBucket: call.capture(0)
        )
        let copy: DocumentCopy
        switch outcome {
        case .found(let found): copy = found
        case .written, .unchanged: return failed(unexpected)
        default: return reply(outcome)
        }
        // The document is sent as a JSON string: that preserves white space and numbers that a
        // browser's parser would round.
        let parts = DocumentJSON.Parts(
            copy,
            showsSystemAttributes: call.rights.allows(systemAttributes(of: call.capture(0)))
        )
        let content: (String, JSONText) =
            parts.isJSON
            ? ("json", .string(String(decoding: parts.body, as: UTF8.self)))
            : ("base64", DocumentJSON.base64(parts.body))
        let described = DocumentJSON.meta(key, copy.meta, isJSON: parts.isJSON)
        return .json(.object([("meta", described), content] + parts.attributes))
            .version(DocumentJSON.revision(copy.meta))
    }

    /// The version that the document must have; nil if the request names none that a document can have.
    private static func precondition(of request: RESTRequest) -> Precondition<CAS>? {
        switch request.precondition {
        case nil: nil
        case .any: .any
        case .absent: .absent
        case .version(let text): DocumentJSON.cas(ofRevision: text).map { .version($0) }
        }
    }

    @Sendable private static func writeDocument(_ call: Call) async -> Reply {
        let key = call.captures[1]
        guard isKey(key) else { return badRequest(keyRule) }
        guard call.request.contentType == RESTRequest.formType else {
            let remedy = "send the document as \(RESTRequest.formType), in a field named value"
            return badRequest(call.request.unsupported(remedy))
        }
        let fields = call.request.formFields
        if let wrong = call.route.parameters?.flaws(of: fields.text).first {
            return badRequest("\(wrong.field): \(wrong.text)")
        }
        // As in Couchbase Server, the value may be empty, and need not be JSON.
        guard let value = fields["value"] else { return badRequest("The field value is missing") }
        if let wrong = fields.illFormedField(besides: ["value"]) { return badRequest(wrong.text) }
        let form = fields.text
        let flags = form["flags"].map(FormParameters.number) ?? UInt64(jsonFlags)
        let expiry = form["expiry"].map(FormParameters.number) ?? 0
        guard let flags = flags.flatMap(UInt32.init(exactly:)),
            let expiry = expiry.flatMap(UInt32.init(exactly:))
        else { return badRequest("flags and expiry are numbers of 32 bits") }
        guard let precondition = precondition(of: call.request) else {
            return badRequest(RESTRequest.preconditionRule)
        }
        let action = DocumentAction.write(
            value: value,
            flags: flags,
            expiry: expiry,
            preservesExpiry: form["preserveTTL"] == "true",
            precondition: precondition
        )
        let outcome = await call.service.documents.perform(
            action,
            on: key,
            inBucket: call.capture(0)
        )
        return reply(outcome, precondition)
    }

    /// The reply of an outcome other than a found document.
    private static func reply(
        _ outcome: DocumentOutcome,
        _ precondition: Precondition<CAS> = .any
    ) -> Reply {
        switch outcome {
        case .refused(.exists) where precondition != .any,
            .refused(.notFound) where precondition != .any:
            let isAbsent = precondition == .absent
            let reason = Reply.conflictSentence("The document", mustBeAbsent: isAbsent)
            return .failure(412, "precondition_failed", reason: reason)
        // An outcome may come from another node: the outcome of another kind of request is an
        // error.
        case .found: return failed(unexpected)
        case .written, .unchanged: return .json([])
        case .noBucket: return .notFound
        case .failed(let text): return failed(text)
        case .refused(let refusal): return reply(refusal)
        }
    }

    private static func reply(_ refusal: DocumentRefusal) -> Reply {
        switch refusal {
        case .notFound: .empty(404)
        case .tooLarge: badRequest("The value is larger than \(Limits.valueBytesMax >> 20) MiB")
        case .exceedsMemory:
            badRequest("The document exceeds the bucket's memory quota. Raise the quota.")
        case .locked: retry("retry_needed", "The document is locked")
        case .writeInProgress, .writeRecommitting:
            retry("retry_needed", "A durable write of the document is pending")
        case .temporaryFailure, .notMyVBucket: retry("retry_needed", unreadableDocument)
        case .durabilityImpossible: failed("Too few nodes have a copy for a durable write.")
        case .durabilityLevelInvalid: failed("The bucket has no disk to persist to.")
        case .durabilityAmbiguous: failed("The outcome of the durable write is unknown.")
        case .exists, .notLocked, .notStored, .notANumber:
            failed(unexpected)
        }
    }

    // MARK: Parts

    static let unexpected = "The node that serves the document replied to another kind of request."

    /// For a document or a whole page; the outcome does not name the node.
    static let unreadableDocument =
        "The bucket is busy or warming up, or a node that serves part of it does not answer"

    private static let keyRule = "A document's id has 1 to \(Limits.keyBytesMax) bytes"

    private static func isKey(_ key: [UInt8]) -> Bool {
        (1...Limits.keyBytesMax).contains(key.count)
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
