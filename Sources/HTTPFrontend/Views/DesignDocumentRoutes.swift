internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// Design documents on the view port.
extension ViewTable {
    static func designDocuments(
        _ plane: any DesignDocumentPlane,
        under prefix: String = ""
    ) -> [Route] {
        documentPaths.flatMap { path in
            let path = prefix + path
            return [
                Route(.get, path, access: .permission("cluster.bucket[.].views!read")) { call in
                    await call.withViewBucket { bucket in
                        read(call, plane, inBucket: bucket)
                    }
                },
                Route(
                    .put,
                    path,
                    access: .permission("cluster.bucket[.].views!write"),
                    body: .designDocument
                ) { call in
                    await call.withViewBucket { bucket in
                        let path = "\(prefix)/\(encoded(bucket))"
                        return await change(call, created: path) {
                            precondition async throws(AdministrationError) in
                            _ = try await plane.putDesignDocument(
                                call.capture(1),
                                body: call.request.body,
                                inBucket: bucket,
                                precondition: precondition
                            )
                        }
                    }
                },
                Route(.delete, path, access: .permission("cluster.bucket[.].views!write")) { call in
                    await call.withViewBucket { bucket in
                        await change(call) { precondition async throws(AdministrationError) in
                            try await plane.deleteDesignDocument(
                                call.capture(1),
                                inBucket: bucket,
                                precondition: precondition
                            )
                        }
                    }
                },
            ]
        }
    }

    private static func read(
        _ call: Call,
        _ plane: any DesignDocumentPlane,
        inBucket bucket: String
    ) -> Reply {
        guard let document = plane.document(call.capture(1), ofBucket: bucket) else {
            return .missing("missing")
        }
        let revision = document.revision.description
        var reply = Reply.rendered(document.body)
        let meta = JSONText.object([
            ("id", .string(document.id)), ("rev", .string(revision)), ("type", "json"),
        ])
        reply.headers = [
            ("X-Couchbase-Meta", String(decoding: meta.bytes, as: UTF8.self)),
            // The reply to HEAD has it too, and no body.
            ("Content-Length", "\(document.body.count)"),
        ]
        return reply.version(revision)
    }

    private static func encoded(_ name: String) -> String { URLCoding.encode(name.utf8) }

    /// Makes a change and renders its reply; `created` is the path of the bucket in which a document is
    /// created or replaced, nil for a deletion.
    private static func change(
        _ call: Call,
        created bucketPath: String? = nil,
        _ work: (Precondition<String>) async throws(AdministrationError) -> Void
    ) async -> Reply {
        guard let precondition = call.request.precondition else {
            return .failure(400, "bad_request", reason: RESTRequest.preconditionRule)
        }
        do throws(AdministrationError) {
            try await work(precondition)
        } catch {
            guard error == .differs else { return Reply(error, errors) }
            let reason = Reply.conflictSentence(
                "The design document",
                mustBeAbsent: precondition == .absent
            )
            return .failure(412, "precondition_failed", reason: reason)
        }
        let name = call.capture(1)
        var reply = Reply.json(
            .object([("ok", true), ("id", .string("_design/\(name)"))]),
            status: bucketPath == nil ? 200 : 201
        )
        if let bucketPath {
            let host = call.request.fields[.host] ?? call.request.localAddress
            let path = "\(bucketPath)/_design/\(encoded(name))"
            reply.headers.append(("Location", "http://\(host)\(path)"))
        }
        return reply
    }

    private static let errors = ErrorForm { text, status in
        switch status {
        case 400: .failure(400, "invalid_design_document", reason: text)
        case 503: Reply.failure(503, "service_unavailable", reason: text).retry(afterSeconds: 1)
        default: .failure(500, "internal_server_error", reason: text)
        }
    }.with(\.unknown, .missing("missing"))
}
