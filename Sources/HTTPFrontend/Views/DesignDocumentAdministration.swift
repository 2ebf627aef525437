internal import Bytes
internal import ClusterService
internal import JSON
internal import Orchestration
internal import Vocabulary

/// Design documents on the admin port: the list for tools and clients, and controllers.
extension AdminRoutes {
    /// Everything of views that the admin port has.
    static func views(_ services: ViewServer.Services) -> [Route] {
        designDocuments(services.designDocuments)
            + ViewTable.designDocuments(services.designDocuments, under: viewPortPath)
            + ViewTable.queries(
                services.queries,
                under: viewPortPath,
                stallTimeout: services.stallTimeout
            )
            + (services.trials.map(trials) ?? [])
            + [functionErrors(services)]
    }

    /// Where the admin port has the routes of the view port: the console can send requests only to
    /// the port that it was loaded from.
    private static let viewPortPath = "/couchBase"

    static func designDocuments(_ plane: any DesignDocumentPlane) -> [Route] {
        [
            Route.ofBucket(.get, "/ddocs", permission: ".views!read") { call in
                guard let bucket = call.bucket?.settings.name else { return .notFound }
                guard call.state.activeNodes.contains(where: { $0.ports.views != 0 }) else {
                    return .json(["error": "no_ddocs_service"], status: 400)
                }
                guard let documents = plane.documents(ofBucket: bucket) else { return .notFound }
                return .json(["rows": .array(documents.map { row($0, bucket) })])
            },
            controller("compactView") { call throws(AdministrationError) in
                try await plane.compactViews(
                    ofDesignDocument: call.capture(1),
                    inBucket: call.capture(0)
                )
            },
            controller("cancelViewCompaction") { call throws(AdministrationError) in
                try await plane.cancelViewCompaction(
                    ofDesignDocument: call.capture(1),
                    inBucket: call.capture(0)
                )
            },
            Route(
                .post,
                "/pools/default/buckets/*/ddocs/<design>/controller/setUpdateMinChanges",
                access: controllerAccess,
                needsCluster: true
            ) { call throws(AdministrationError) in try await setUpdateThresholds(call, plane) }
            .failing(as: ofDesignDocument),
        ]
    }

    private static let controllerAccess = RouteAccess.permission("cluster.bucket[.].views!compact")

    private static func controller(
        _ name: String,
        _ body: @escaping @Sendable (Call) async throws(AdministrationError) -> Void
    ) -> Route {
        Route(
            .post,
            "/pools/default/buckets/*/ddocs/<design>/controller/\(name)",
            access: controllerAccess,
            needsCluster: true
        ) { call throws(AdministrationError) in
            guard call.bucket != nil else { return .notFound }
            try await body(call)
            return .done
        }.accepting().failing(as: ofDesignDocument)
    }

    private static func row(_ document: DesignDocument, _ bucket: String) -> JSONText {
        let id = document.id
        let controllers =
            "/pools/default/buckets/\(ConfigurationJSON.path(bucket))/ddocs/"
            + "\(URLCoding.encode(id.utf8))/controller"
        return [
            "doc": [
                "meta": ["id": .string(id), "rev": .string(document.revision.description)],
                "json": .rendered(document.body),
            ],
            "controllers": [
                "compact": .string("\(controllers)/compactView"),
                "setUpdateMinChanges": .string("\(controllers)/setUpdateMinChanges"),
            ],
        ]
    }

    // MARK: When indexes are updated

    private static func setUpdateThresholds(
        _ call: Call,
        _ plane: any DesignDocumentPlane
    ) async throws(AdministrationError) -> Reply {
        guard call.bucket != nil else { return .notFound }
        let form = call.request.form
        var wrong: [(String, JSONText)] = []
        let values = ["updateMinChanges", "replicaUpdateMinChanges"].map { field -> UInt64? in
            guard let text = form[field] else { return nil }
            let value = FormParameters.number(text)
            if value == nil {
                wrong.append((field, .string("\(field) must be a non-negative integer.")))
            }
            return value
        }
        guard wrong.isEmpty else { return .json(.object(wrong), status: 400) }
        let document = try await plane.setUpdateMinChanges(
            ofDesignDocument: call.capture(1),
            inBucket: call.capture(0),
            updateMinChanges: values[0].map { Int(clamping: $0) },
            replicaUpdateMinChanges: values[1].map { Int(clamping: $0) }
        )
        let options = document.body.withUnsafeBytes { JSONValue.parse(ByteView($0))?["options"] }
        return .rendered(JSONWriter.text { $0.value(options ?? .object([])) })
    }

    private static let ofDesignDocument = ErrorForm.members.with(\.object, "The design document")
}
