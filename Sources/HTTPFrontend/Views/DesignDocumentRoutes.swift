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
                Route(.get, path, .permission("cluster.bucket[.].views!read")) { call in
                    await call.withViewBucket { bucket in
                        await read(call, plane, bucket)
                    }
                },
                Route(
                    .put,
                    path,
                    .permission("cluster.bucket[.].views!write"),
                    body: .designDocument
                ) { call in
                    await call.withViewBucket { bucket in
                        guard let precondition = call.request.precondition else {
                            return badCondition
                        }
                        let outcome = await plane.putDesignDocument(
                            call.capture(1),
                            body: call.request.body,
                            inBucket: bucket,
                            precondition: precondition
                        )
                        return reply(outcome, call, created: "\(prefix)/\(encoded(bucket))")
                    }
                },
                Route(.delete, path, .permission("cluster.bucket[.].views!write")) { call in
                    await call.withViewBucket { bucket in
                        guard let precondition = call.request.precondition else {
                            return badCondition
                        }
                        let outcome = await plane.deleteDesignDocument(
                            call.capture(1),
                            inBucket: bucket,
                            precondition: precondition
                        )
                        return reply(outcome, call)
                    }
                },
            ]
        }
    }

    private static func read(
        _ call: Call,
        _ plane: any DesignDocumentPlane,
        _ bucket: String
    ) async -> Reply {
        switch await plane.designDocument(call.capture(1), ofBucket: bucket) {
        case .missing: return .missing("missing")
        case .deleted: return .missing("deleted")
        case .found(let document):
            var reply = Reply.rendered(document.body)
            let meta = JSONText.object([
                ("id", .string("_design/\(document.name)")), ("rev", .string(document.revision)),
                ("type", "json"),
            ])
            reply.headers = [
                ("X-Couchbase-Meta", String(decoding: meta.bytes, as: UTF8.self)),
                // Also in the reply to HEAD, which has no body.
                ("Content-Length", "\(document.body.count)"),
            ]
            return reply.version(document.revision)
        }
    }

    private static var badCondition: Reply {
        .failure(400, "bad_request", RESTRequest.preconditionRule)
    }

    private static func encoded(_ name: String) -> String { URLCoding.encode(name.utf8) }

    /// The reply to a change; `created` is the path of the bucket in which a document was created or
    /// replaced, nil after a deletion.
    private static func reply(
        _ outcome: DesignDocumentOutcome,
        _ call: Call,
        created bucketPath: String? = nil
    ) -> Reply {
        switch outcome {
        case .done:
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
        case .missing: return .missing("missing")
        case .refused(let error, let reason): return .failure(400, error, reason)
        case .differs:
            let isAbsent = call.request.precondition == .absent
            let reason = Reply.conflictSentence("The design document", mustBeAbsent: isAbsent)
            return .failure(412, "precondition_failed", reason)
        case .busy(let reason):
            return Reply.failure(503, "service_unavailable", reason).retry(afterSeconds: 1)
        case .failed(let reason): return .failure(500, "internal_server_error", reason)
        }
    }
}
