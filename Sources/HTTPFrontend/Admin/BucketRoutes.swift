internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// Buckets: read, create, change, flush, delete.
extension AdminRoutes {
    static let buckets: [Route] = [
        Route(.get, "/pools/default/buckets", access: .poolsRead) { call in
            let numbers = ClusterNumbers(call)
            let buckets = call.visibleBuckets.map {
                BucketJSON(call: call, bucket: $0).json(numbers: numbers)
            }
            return .json(.array(buckets))
        },
        Route.ofBucket(.get, "", permission: ".settings!read") { call in
            call.bucket.map {
                Reply.json(BucketJSON(call: call, bucket: $0).json()).version($0.settingsRevision)
            } ?? .notFound
        },
        Route.setting(
            "/pools/default/buckets",
            .permission("cluster.buckets!create"),
            handler: createBucket
        ),
        Route.ofBucket(
            .post,
            "",
            permission: ".settings!write",
            validates: true,
            handler: changeBucket
        ),
        Route.ofBucket(.delete, "", permission: "!delete") {
            call throws(AdministrationError) in
            try await call.service.buckets.delete(call.capture(0))
            return .done
        }.accepting().failing(
            as: ErrorForm { text, status in
                // Tools recognize the reply 500 by its shape and poll until the bucket is gone.
                .json(["_": .string(status == 500 ? text + "\r\n" : text)], status: status)
            }
        ),
        Route.ofBucket(.post, "/controller/doFlush", permission: "!flush") {
            call throws(AdministrationError) in
            try await call.service.buckets.flush(call.capture(0))
            return .done
        }.accepting(),
        Route.ofBucket(.post, "/controller/unsafePurgeBucket", permission: "!delete") {
            call throws(AdministrationError) in
            try await call.service.compaction.purge(call.capture(0))
            return .done
        }.accepting(),
        Route.ofBucket(.get, "/nodes", permission: ".settings!read") { call in
            call.bucket.map { .json(servers(of: $0, call)) } ?? .notFound
        },
        Route.ofBucket(.get, "/nodes/*", permission: ".settings!read") { call in
            let name = call.capture(1)
            let node = call.state.nodes.first { NodeJSON(call: call, node: $0).hostname == name }
            guard let bucket = call.bucket, let node,
                call.state.servers(of: bucket).contains(where: { $0.number == node.number })
            else {
                return .notFound
            }
            return .json(NodeJSON(call: call, node: node).json(bucket: bucket))
        },
        Route.ofBucket(.get, "/localRandomKey", permission: ".data.docs!read") { call in
            guard let bucket = call.bucket else { return .notFound }
            guard let key = await call.service.documents.randomKey(inBucket: bucket.settings.name)
            else {
                return .json(["ok": false, "error": "fallback_to_all_docs"], status: 404)
            }
            return .json(.object([("ok", true)] + DocumentJSON.name("key", of: key)))
        },
    ]

    private static func createBucket(_ call: Call) async throws(AdministrationError) -> Reply {
        if call.request.isValidationOnly { return validation(call, of: nil) }
        try await call.service.buckets.create(call.request.form, by: requester(call))
        var reply = Reply.empty(202)
        let name = call.request.form["name"] ?? ""
        reply.headers = [("Location", "/pools/default/buckets/\(ConfigurationJSON.path(name))")]
        return reply.warning(networkWarning(call, of: name))
    }

    private static func changeBucket(_ call: Call) async throws(AdministrationError) -> Reply {
        if call.request.isValidationOnly {
            return validation(call, of: call.capture(0))
        }
        let revision: String?
        switch call.request.precondition {
        case .any: revision = nil
        case .version(let text): revision = text
        case nil, .absent: return .refused([FieldError("_", RESTRequest.preconditionRule)])
        }
        try await call.service.buckets.change(
            call.capture(0),
            call.request.form,
            by: requester(call),
            ifRevision: revision
        )
        return Reply.done.warning(networkWarning(call, of: call.capture(0)))
    }

    /// The warning about a form that admits clients from the network without a password; nil for another
    /// form.
    private static func networkWarning(_ call: Call, of name: String) -> String? {
        guard call.request.form["passwordless"] == "network" else { return nil }
        return BucketService.networkWarning(ofBucket: name)
    }

    private static func requester(_ call: Call) -> BucketForm.Requester {
        BucketForm.Requester(name: call.identity.text, allows: call.rights.allows)
    }

    private static func validation(_ call: Call, of name: String?) -> Reply {
        let form = call.request.form
        let requester = requester(call)
        if let missing = call.service.buckets.missingPermission(form, changing: name, by: requester)
        {
            return .forbidden(missing.text)
        }
        guard
            let (errors, summaries) = call.service.buckets.validate(
                call.request.form,
                changing: name
            )
        else { return .notFound }
        let more: [(String, JSONText)] = [("summaries", summaries.json)]
        let all = errors + warnings(call, errors, name: name)
        if !all.isEmpty { return .refused(all, and: more) }
        // As in Couchbase Server, which distinguishes the two.
        return .json(.object([("errors", [:])] + more), status: name == nil ? 200 : 202)
    }

    /// Warnings of a validation; the change itself would be accepted.
    ///
    /// `ignore_warnings=1` omits them.
    private static func warnings(
        _ call: Call,
        _ errors: [FieldError],
        name: String?
    ) -> [FieldError] {
        guard call.request.query["ignore_warnings"] != "1" else { return [] }
        var warnings: [FieldError] = []
        if let text = networkWarning(call, of: name ?? call.request.form["name"] ?? "") {
            warnings.append(FieldError("passwordless", "Warning: " + text))
        }
        guard !errors.contains(where: { $0.field == "replicaNumber" }),
            let replicas = call.request.form["replicaNumber"].flatMap(FormParameters.number),
            replicas >= UInt64(max(call.state.activeNodes.count, 1))
        else { return warnings }
        let text = "you do not have enough data servers to support this number of replicas."
        return warnings + [FieldError("replicaNumber", "Warning: " + text)]
    }

    private static func servers(of bucket: BucketRecord, _ call: Call) -> JSONText {
        let path = "/pools/default/buckets/\(ConfigurationJSON.path(bucket.settings.name))/nodes"
        let servers = call.state.servers(of: bucket)
        return [
            "servers": .array(
                servers.map { node in
                    let name = NodeJSON(call: call, node: node).hostname
                    let segment = URLCoding.encode(name.utf8)
                    return [
                        "hostname": .string(name),
                        "uri": .string("\(path)/\(segment)"),
                        "stats": ["uri": .string("\(path)/\(segment)/stats")],
                    ]
                }
            )
        ]
    }
}

extension RESTRequest {
    /// The request asks to validate a change without applying it.
    var isValidationOnly: Bool { query["just_validate"] == "1" }
}
