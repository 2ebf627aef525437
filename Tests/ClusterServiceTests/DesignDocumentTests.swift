import Bytes
import ClusterService
import Orchestration
import Testing
import Vocabulary

/// Requests about design documents, from check to log and back.
@Suite struct DesignDocumentTests {
    private static let views =
        #"{"views":{"v":{"map":"function (d) {}"},"w":{"map":"m","reduce":"_count"}}}"#

    let world = World()

    /// A provisioned node with bucket `b`.
    private func started(
        scripts: (any ScriptCheck)? = nil
    ) async throws -> AdministrationService {
        let service = try world.service(RecordingPlane(), scripts: scripts)
        service.applier.openBuckets()
        try await service.start(host: "127.0.0.1", ports: NodePorts(admin: 8_091, data: 11_210))
        let credentials = [("port", "SAME"), ("username", "A"), ("password", "password")]
        _ = await Result(
            of: try await service.settings.initialise(
                FormParameters(credentials.map { ($0.0, $0.1) })
            )
        )
        let bucket = [("name", "b"), ("ramQuotaMB", "100"), ("flushEnabled", "1")]
        _ = await Result(
            of: try await service.buckets.create(FormParameters(bucket.map { ($0.0, $0.1) }))
        )
        return service
    }

    private func refusal(
        _ request: () async throws(AdministrationError) -> Void
    ) async -> AdministrationError? {
        do throws(AdministrationError) {
            try await request()
            return nil
        } catch {
            return error
        }
    }

    private func put(
        _ name: String,
        _ text: String,
        to service: AdministrationService
    ) async -> AdministrationError? {
        await refusal { () throws(AdministrationError) in
            _ = try await service.designDocuments.putDesignDocument(
                name,
                body: Array(text.utf8),
                inBucket: "b"
            )
        }
    }

    private func designEvents(_ service: AdministrationService) -> [String] {
        service.cluster.events.all().map(\.text).filter { $0.contains("Design document") }
    }

    @Test func queriesReadMapRevisionAndUUIDsOfAppliedState() async throws {
        let service = try await started()
        func revision(_ name: String) -> Cluster.MapRevision? {
            service.state.bucket(named: name).map {
                Cluster.MapRevision(epoch: service.state.revEpoch, revision: $0.rev)
            }
        }
        let uuid = try #require(service.state.bucket(named: "b")?.settings.uuid)
        let first = try #require(service.cluster.mapRevision(ofBucket: uuid))
        #expect(first == revision("b"))
        #expect(!service.cluster.hasSeveralNodes)
        #expect(service.state.uuid(ofBucket: "b") == uuid)
        #expect(service.state.uuid(ofBucket: "c") == nil)
        #expect(service.cluster.uuid(ofBucket: "b", withDesignDocument: "x") == nil)
        #expect(await put("x", Self.views, to: service) == nil)
        #expect(service.cluster.uuid(ofBucket: "b", withDesignDocument: "x") == uuid)
        #expect(service.cluster.uuid(ofBucket: "b", withDesignDocument: "y") == nil)
        #expect(service.cluster.uuid(ofBucket: "c", withDesignDocument: "x") == nil)
        #expect(service.cluster.mapRevision(ofBucket: "b") == nil, "it has a UUID")
        // A bucket of the same name has another UUID and another map.
        _ = await Result(of: try await service.buckets.delete("b"))
        #expect(service.cluster.mapRevision(ofBucket: uuid) == nil)
        #expect(service.cluster.uuid(ofBucket: "b", withDesignDocument: "x") == nil)
        let bucket = [("name", "b"), ("ramQuotaMB", "100")]
        _ = await Result(
            of: try await service.buckets.create(FormParameters(bucket.map { ($0.0, $0.1) }))
        )
        let next = try #require(service.state.bucket(named: "b")?.settings.uuid)
        let second = try #require(service.cluster.mapRevision(ofBucket: next))
        #expect(next != uuid && second == revision("b") && second != first)
        #expect(await put("x", Self.views, to: service) == nil)
        #expect(service.cluster.uuid(ofBucket: "b", withDesignDocument: "x") == next)
    }

    @Test func documentIsCreatedChangedPublishedAndDeleted() async throws {
        let service = try await started()
        #expect(service.designDocuments.documents(ofBucket: "b") == [])
        #expect(service.designDocuments.documents(ofBucket: "c") == nil)
        let sent = Array("{ \"views\" : {} }".utf8)
        let made = try await service.designDocuments.putDesignDocument(
            "dev_x",
            body: sent,
            inBucket: "b"
        )
        #expect(made.body == Array(#"{"views":{}}"#.utf8) && made.revision.number == 1)
        #expect(service.designDocuments.document("dev_x", ofBucket: "b") == made)
        // The same text with other blanks is no change.
        let again = try await service.designDocuments.putDesignDocument(
            "dev_x",
            body: made.body,
            inBucket: "b"
        )
        #expect(again == made)
        let views = Array(Self.views.utf8)
        let changed = try await service.designDocuments.putDesignDocument(
            "dev_x",
            body: views,
            inBucket: "b"
        )
        #expect(changed.revision.number == 2)
        #expect(changed.definition.views.map(\.name) == ["v", "w"])
        // Publishing is a copy.
        let published = try await service.designDocuments.putDesignDocument(
            "x",
            body: changed.body,
            inBucket: "b"
        )
        #expect(published.body == changed.body && published.revision.number == 1)
        let ids = service.designDocuments.documents(ofBucket: "b")?.map(\.id)
        #expect(ids == ["_design/dev_x", "_design/x"])
        try await service.designDocuments.deleteDesignDocument("dev_x", inBucket: "b")
        #expect(service.designDocuments.document("dev_x", ofBucket: "b") == nil)
        let texts = [
            "Design document \"_design/dev_x\" of bucket \"b\" was created: revision "
                + "\(made.revision).",
            "Design document \"_design/dev_x\" of bucket \"b\" was changed: revision "
                + "\(changed.revision).",
            "Design document \"_design/x\" of bucket \"b\" was created: revision "
                + "\(published.revision).",
            "Design document \"_design/dev_x\" of bucket \"b\" was deleted.",
        ]
        #expect(designEvents(service) == texts)
    }

    @Test func documentSurvivesFlushAndRestart() async throws {
        let first = try await started()
        let made = try await first.designDocuments.putDesignDocument(
            "x",
            body: Array(Self.views.utf8),
            inBucket: "b"
        )
        guard case .success = await Result(of: try await first.buckets.flush("b")) else {
            Issue.record("not flushed")
            return
        }
        #expect(first.designDocuments.document("x", ofBucket: "b") == made)
        first.stop()
        let second = try world.service(RecordingPlane())
        #expect(second.designDocuments.document("x", ofBucket: "b") == made)
    }

    @Test func refusalsHaveCodeAndSentence() async throws {
        let service = try await started()
        #expect(
            await put("x", #"{"views":{"v":{}}}"#, to: service)
                == AdministrationError.refused(
                    #"The view "v" has no map function (member "map")."#
                )
        )
        #expect(await put("", "{}", to: service)?.isRefusal == true)
        let large = #"{"a":""# + String(repeating: "x", count: 1 << 20) + #""}"#
        #expect(
            await put("x", large, to: service)
                == AdministrationError.refused(
                    "The design document has 1048584 bytes; at most 1048576 are possible."
                )
        )
        let unknown = await refusal { () throws(AdministrationError) in
            try await service.designDocuments.deleteDesignDocument("x", inBucket: "b")
        }
        #expect(unknown == .unknown)
        let bucket = await refusal { () throws(AdministrationError) in
            _ = try await service.designDocuments.putDesignDocument("x", body: [], inBucket: "c")
        }
        #expect(bucket == .unknown)
        #expect(designEvents(service).isEmpty && service.state.designBytes == 0)
    }

    @Test func changeOfDocumentWithAnotherRevisionIsRefused() async throws {
        let service = try await started()
        let views = Array(Self.views.utf8)
        func put(_ precondition: Precondition<String>) async -> AdministrationError? {
            await refusal { () throws(AdministrationError) in
                _ = try await service.designDocuments.putDesignDocument(
                    "x",
                    body: views,
                    inBucket: "b",
                    precondition: precondition
                )
            }
        }
        func delete(_ precondition: Precondition<String>) async -> AdministrationError? {
            await refusal { () throws(AdministrationError) in
                try await service.designDocuments.deleteDesignDocument(
                    "x",
                    inBucket: "b",
                    precondition: precondition
                )
            }
        }
        #expect(await put(.version("1-00000000")) == .differs)
        #expect(await put(.absent) == nil)
        #expect(await put(.absent) == .differs)
        let revision = try #require(
            service.designDocuments.document("x", ofBucket: "b")?.revision.description
        )
        #expect(await put(.version(revision)) == nil)
        #expect(await put(.version("1-00000000")) == .differs)
        #expect(await delete(.version("1-00000000")) == .differs)
        #expect(await delete(.version(revision)) == nil)
        #expect(service.designDocuments.document("x", ofBucket: "b") == nil)
    }

    @Test func documentBeyondTheTotalSizeIsRefusedByName() async throws {
        let service = try await started()
        let text =
            #"{"views":{"v":{"map":""# + String(repeating: "x", count: 1_047_982) + #""}}}"#
        for name in ["1", "2", "3", "4"] {
            #expect(await put(name, text, to: service) == nil)
        }
        let refused = await put("5", text, to: service)
        #expect(
            refused
                == AdministrationError.refused(
                    "With the document \"_design/5\" the design documents of all buckets would have "
                        + "5240365 bytes (text, name, and 64 for each); at most 4194304 are possible. "
                        + "Delete documents that are not used."
                )
        )
        try await service.designDocuments.deleteDesignDocument("2", inBucket: "b")
        #expect(await put("5", text, to: service) == nil)
    }

    /// Each index has a thread on every node: some requests of few bytes could use them all up.
    @Test func viewsBeyondTheNumberOfAllAreRefused() async throws {
        let service = try await started()
        func text(_ count: Int) -> String {
            let views = (0..<count).map { "\"v\($0)\":{\"map\":\"m\($0)\"}" }
            return "{\"views\":{\(views.joined(separator: ","))}}"
        }
        for name in ["1", "2", "3", "4"] {
            #expect(await put(name, text(250), to: service) == nil)
        }
        let refused = await put("5", text(1), to: service)
        #expect(
            refused
                == AdministrationError.refused(
                    "With the document \"_design/5\" the buckets would have 1001 views; at most 1000 "
                        + "are possible. Delete views that are not used."
                )
        )
        #expect(await put("1", text(251), to: service)?.isRefusal == true)
        #expect(await put("1", text(249), to: service) == nil)
        #expect(await put("5", text(1), to: service) == nil)
        // Without views there is no index.
        #expect(await put("6", "{}", to: service) == nil)
    }

    // MARK: Scripts

    /// Refuses each source that contains `wrong`, and records what it was asked about.
    private final class RecordingCheck: ScriptCheck {
        let asked = Guarded<[String]>([])

        func flaw(in source: String, of kind: ScriptKind, forBucket uuid: String) async
            -> ScriptFlaw?
        {
            asked.withLock { $0.append("\(kind) \(source)") }
            guard source.contains("wrong") else { return nil }
            return ScriptFlaw(line: 3, message: "SyntaxError: Unexpected token '}'")
        }
    }

    @Test func sourceWithErrorIsRefusedWithViewLineAndMessage() async throws {
        let check = RecordingCheck()
        let service = try await started(scripts: check)
        let text =
            #"{"views":{"v":{"map":"m1","reduce":"_sum"},"w":{"map":"m2","reduce":"wrong"},"#
            + #""x":{"map":"wrong"}}}"#
        let sentence =
            "The reduce function of the view \"w\" has an error in line 3: SyntaxError: Unexpected "
            + "token '}'"
        #expect(await put("x", text, to: service) == AdministrationError.refused(sentence))
        #expect(check.asked.withLock { $0 } == ["map m1", "map m2", "reduce wrong"])
        #expect(service.designDocuments.documents(ofBucket: "b") == [])
        #expect(await put("x", #"{"views":{"v":{"map":"m1"}}}"#, to: service) == nil)
    }

    // MARK: Update settings

    @Test func updateSettingsChangeTheDocument() async throws {
        let service = try await started()
        #expect(await put("x", #"{"views":{}}"#, to: service) == nil)
        let changed = try await service.designDocuments.setUpdateMinChanges(
            ofDesignDocument: "x",
            inBucket: "b",
            updateMinChanges: 500,
            replicaUpdateMinChanges: nil
        )
        let text = #"{"views":{},"options":{"updateMinChanges":500}}"#
        #expect(String(decoding: changed.body, as: UTF8.self) == text)
        #expect(changed.definition.options.updateMinChanges == 500)
        #expect(changed.revision.number == 2)
        let unknown = await refusal { () throws(AdministrationError) in
            _ = try await service.designDocuments.setUpdateMinChanges(
                ofDesignDocument: "y",
                inBucket: "b",
                updateMinChanges: 1,
                replicaUpdateMinChanges: 1
            )
        }
        #expect(unknown == .unknown)
    }
}

extension AdministrationError {
    fileprivate var isRefusal: Bool { if case .refused = self { true } else { false } }
}
