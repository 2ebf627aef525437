import Bytes
import JSON
import Revisions
import SyncWire
import Testing

@Suite struct MetadataTests {
    private func json(_ metadata: DocumentMetadata) -> String {
        String(decoding: JSONWriter.text { metadata.writeJSON(to: &$0) }, as: UTF8.self)
    }

    private func committed(
        _ request: RevisionRequest,
        _ assignment: SyncAssignment,
        on document: StoredDocument = StoredDocument(),
        at sequence: UInt64,
        timeSaved: UInt64 = 0
    ) throws -> StoredDocument {
        guard case .write(let plan) = WritePlan.make(request, on: document, .testing()),
            case .stored(let write) = plan.commit(
                .accepted(assignment),
                timeSaved: timeSaved,
                drawSequence: { sequence }
            )
        else { throw Refusal(0, "not a write") }
        return write.document
    }

    /// What Sync Gateway 1.4.1 printed for `_raw/t1` (the recorded dialogue).
    @Test func metadataJSONEqualsThatOfSyncGateway() throws {
        let document = try committed(
            edit(#"{"n":1,"owner":"jane","tag":"public"}"#),
            SyncAssignment(channels: ["_public"], access: ["jane": ["_public", "_jane"]]),
            at: 30,
            timeSaved: 1_795_287_868_680_314_707
        )
        let id = "1-fc5dde8cea54343d97c45c8d25ecf83f"
        #expect(
            json(document.metadata) == #"{"rev":"\#(id)","sequence":30,"recent_sequences":[30],"#
                + #""history":{"revs":["\#(id)"],"parents":[-1],"channels":[["_public"]]},"#
                + #""channels":{"_public":null},"access":{"jane":{"_jane":30,"_public":30}},"#
                + #""time_saved":"2026-11-21T19:04:28.680314707Z"}"#
        )
        #expect(document.metadata.encoded.count <= 70)
    }

    @Test func jsonOfAConflictHasFlagsAndBodies() throws {
        let tag = #"{"a":{"data":"aGVsbG8="}}"#
        var document = try committed(replica("2-b", "1-a"), SyncAssignment(), at: 1)
        let loser = try replica("2-a", "1-a", body: #"{"n":1}"#, attachments: tag)
        document = try committed(loser, SyncAssignment(channels: ["x"]), on: document, at: 2)
        let ended = try replica("3-c", "2-a", "1-a", body: "{}", deletes: true, attachments: tag)
        let conflict = json(document.metadata)
        #expect(conflict.contains(#"{"rev":"2-b","new_rev":"2-a","flags":28,"sequence":2,"#))
        let history = #""history":{"revs":["1-a","2-b","2-a"],"parents":[-1,0,0],"bodymap":{"2":"#
        #expect(conflict.contains(history + #""{\"_attachments\":{\"a\":{\"digest\":"#))
        #expect(conflict.contains(#",\"n\":1"#))
        #expect(conflict.contains(#""channels":[null,null,["x"]]}"#))
        document = try committed(ended, SyncAssignment(), on: document, at: 3)
        let resolved = json(document.metadata)
        #expect(resolved.contains(#""new_rev":"3-c","flags":20,"#))
        #expect(resolved.contains(#""deleted":[3],"bodymap":{"3":"{\"_attachments\":{\"a\":"#))
    }

    @Test(
        arguments: [
            (0, "1970-01-01T00:00:00Z"), (951_782_400_000_000_000, "2000-02-29T00:00:00Z"),
            (1_709_251_199_500_000_000, "2024-02-29T23:59:59.5Z"),
            (1_709_251_200_000_000_001, "2024-03-01T00:00:00.000000001Z"),
            (4_102_444_799_000_000_000, "2099-12-31T23:59:59Z"),
        ] as [(UInt64, String)]
    )
    func timeIsPrintedAsRFC3339(nanoseconds: UInt64, text: String) throws {
        let document = try committed(edit("{}"), .init(), at: 1, timeSaved: nanoseconds)
        #expect(json(document.metadata).contains(#""time_saved":"\#(text)""#))
    }

    @Test func losingLeafHasItsOwnAttachmentsForItsChildren() throws {
        let tag = #"{"a":{"data":"aGVsbG8="}}"#
        var document = try committed(replica("1-r"), SyncAssignment(), at: 1)
        document = try committed(replica("2-c", "1-r"), SyncAssignment(), on: document, at: 2)
        let loser = try replica("2-b", "1-r", attachments: tag)
        document = try committed(loser, SyncAssignment(), on: document, at: 3)
        let metadata = document.metadata
        #expect(metadata.tree.winner?.id == rev("2-c"))
        #expect(metadata.attachments(inheritedFrom: rev("2-b")).map(\.name) == ["a"])
        #expect(metadata.attachments(inheritedFrom: rev("2-c")).isEmpty)
    }

    @Test func channelRecordsEnteringAndLeaving() throws {
        var document = StoredDocument()
        func write(_ channels: [String], at sequence: UInt64, deletes: Bool = false) throws {
            let parent = document.metadata.tree.winner.map { "\($0.id)" }
            let body = #"{"n":\#(sequence)}"#
            document = try committed(
                edit(body, of: parent, deletes: deletes),
                SyncAssignment(channels: channels),
                on: document,
                at: sequence
            )
        }
        try write(["a", "b"], at: 10)
        try write(["b"], at: 20)
        let second = try #require(document.metadata.tree.winner?.id)
        let left = #""channels":{"a":{"seq":20,"rev":"\#(second)"},"b":null}"#
        #expect(json(document.metadata).contains(left))
        try write(["a", "b"], at: 30)
        let record = try #require(document.metadata.channels.first)
        #expect(record.entered == 30 && record.isCurrent)
        #expect(record.past.map { [$0.entered, $0.left] } == [[10, 20]])
        try write([], at: 40, deletes: true)
        let last = try #require(document.metadata.tree.winner?.id)
        let gone = #"{"seq":40,"rev":"\#(last)","del":true}"#
        #expect(json(document.metadata).contains(#""channels":{"a":\#(gone),"b":\#(gone)}"#))
        #expect(document.metadata.channelsLeft(with: last) == ["a", "b"])
        for round in UInt64(5)..<15 { try write(round % 2 == 1 ? ["a"] : [], at: round * 10) }
        // The oldest stays are one.
        let past = try #require(document.metadata.channels.first).past
        let stays: [[UInt64]] = [[10, 40], [50, 60], [70, 80], [90, 100], [110, 120]]
        #expect(past.map { [$0.entered, $0.left] } == stays)
        #expect(try DocumentMetadata(decoding: document.metadata.encoded) == document.metadata)
    }

    @Test func grantThatStaysKeepsItsSequence() {
        var table = GrantTable()
        #expect(
            table.update(to: ["jane": ["a", "b"], "role:r": ["c"]], at: 5) == ["jane", "role:r"]
        )
        #expect(table.update(to: ["jane": ["b", "d", "d"], "role:r": ["c"]], at: 9) == ["jane"])
        #expect(
            table.grants == [
                .init(principal: "jane", target: "b", sequence: 5),
                .init(principal: "jane", target: "d", sequence: 9),
                .init(principal: "role:r", target: "c", sequence: 5),
            ]
        )
        #expect(table.update(to: [:], at: 11) == ["jane", "role:r"] && table.grants.isEmpty)
    }

    /// Random documents survive the encoding; damaged bytes are refused or decode to something that does.
    @Test func metadataSurvivesItsEncoding() throws {
        for seed in UInt64(1)...60 {
            let document = try randomDocument(seed: seed)
            let encoded = document.metadata.encoded
            try #require(
                try DocumentMetadata(decoding: encoded) == document.metadata,
                "seed \(seed)"
            )
            var random = SeededRandom(seed: seed)
            for _ in 0..<20 {
                var damaged = encoded
                let place = Int(random.next() % UInt64(damaged.count))
                damaged[place] = UInt8(truncatingIfNeeded: random.next())
                guard let decoded = try? DocumentMetadata(decoding: damaged) else { continue }
                _ = json(decoded)
                try #require(try DocumentMetadata(decoding: decoded.encoded) == decoded)
            }
        }
    }

    /// Some writes of edits and branches, each in random channels.
    private func randomDocument(seed: UInt64) throws -> StoredDocument {
        var random = SeededRandom(seed: seed)
        var desk = Desk()
        desk.rules.revsLimit = 4
        for number in 0..<12 {
            let leaves = desk.document.metadata.tree.leaves
            let leaf = leaves.isEmpty ? nil : leaves[Int(random.next() % UInt64(leaves.count))]
            let isBranch = random.next() % 3 == 0
            let names = ["a", "b", "c"].filter { _ in random.next() % 2 == 0 }
            let assignment = SyncAssignment(
                channels: names,
                access: ["jane": names],
                roles: ["joe": names.map { "role:\($0)" }]
            )
            let data = random.next() % 3 == 0 ? #"{"a":{"data":"eA=="}}"# : "null"
            let request =
                isBranch || leaf == nil
                ? try replica("\(number % 3 + 1)-x\(number)", body: "{}", attachments: data)
                : try edit(
                    #"{"n":\#(number)}"#,
                    of: leaf.map { "\($0.id)" },
                    deletes: random.next() % 4 == 0,
                    attachments: data
                )
            guard case .write(let plan) = WritePlan.make(request, on: desk.document, desk.rules)
            else { continue }
            let promoted = plan.promoted.map { _ in
                WritePlan.PromotedLeaf(json: [], acceptance: .accepted(assignment))
            }
            _ = try desk.write(request, .accepted(assignment), promoted: promoted)
            try check(desk.document.metadata, seed)
        }
        return desk.document
    }

    /// Every live leaf has a body, and only leaves have.
    private func check(_ metadata: DocumentMetadata, _ seed: UInt64) throws {
        let leaves = metadata.tree.leaves
        for leaf in leaves.dropFirst() where !leaf.isDeleted {
            let isKept = metadata.leafBodies.contains { $0.revision == leaf.id }
            try #require(isKept, "seed \(seed): \(leaf.id)")
        }
        let losers = Set(leaves.dropFirst().map(\.id))
        try #require(
            metadata.leafBodies.allSatisfy { losers.contains($0.revision) },
            "seed \(seed)"
        )
        try #require(Set(metadata.leafBodies.map(\.revision)).count == metadata.leafBodies.count)
    }
}
