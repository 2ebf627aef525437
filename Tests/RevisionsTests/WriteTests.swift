import Bytes
import JSON
import Revisions
import SyncWire
import Testing

/// A document and a gateway that writes it, as a service does.
struct Desk {
    var document = StoredDocument()
    var sequence: UInt64 = 0
    var rules = WriteRules.testing()

    /// Writes one revision, with the assignment for it and for a promoted leaf.
    mutating func write(
        _ request: RevisionRequest,
        _ decision: WritePlan.Acceptance = .accepted(.init()),
        promoted: WritePlan.PromotedLeaf? = nil
    ) throws -> StoredWrite {
        guard case .write(let plan) = WritePlan.make(request, on: document, rules) else {
            throw Refusal(0, "not a write")
        }
        let outcome = plan.commit(decision, promotedLeaf: promoted, timeSaved: 7) { sequence + 1 }
        switch outcome {
        case .refused(let refusal): throw refusal
        case .stored(let stored):
            sequence += 1
            document = stored.document
            return stored
        }
    }

    func refusal(_ request: RevisionRequest) -> Refusal? {
        guard case .refused(let refusal) = WritePlan.make(request, on: document, rules) else {
            return nil
        }
        return refusal
    }

    func known(_ request: RevisionRequest) -> RevisionID? {
        guard case .known(let id) = WritePlan.make(request, on: document, rules) else { return nil }
        return id
    }
}

func edit(
    _ body: String,
    of parent: String? = nil,
    deletes: Bool = false,
    attachments: String = "null"
) throws -> RevisionRequest {
    RevisionRequest(
        .edit(parent: parent.map(rev)),
        try content(body),
        deletion: deletes ? true : nil,
        attachments: try sent(attachments)
    )
}

func replica(
    _ history: String...,
    body: String = "{}",
    deletes: Bool = false,
    attachments: String = "null"
) throws -> RevisionRequest {
    RevisionRequest(
        .replicated(history: history.map(rev)),
        try content(body),
        deletion: deletes ? true : nil,
        attachments: try sent(attachments)
    )
}

private func content(_ body: String) throws -> DocumentContent {
    try Array(body.utf8).withUnsafeBytes {
        try DocumentBody(ByteView($0), policy: .stored, numbers: .literals).content
    }
}

@Suite struct WriteTests {
    /// Names that Sync Gateway 1.4.1 printed (the recorded dialogue, and MD5 of the formula in S 1).
    @Test func editsHaveTheNamesThatSyncGatewayComputes() throws {
        var desk = Desk()
        let first = try desk.write(edit(#"{"n":1,"owner":"jane","tag":"public"}"#))
        #expect(first.revision == rev("1-fc5dde8cea54343d97c45c8d25ecf83f"))
        var other = Desk()
        let attached = try other.write(
            edit(
                #"{"owner":"jane","tag":"public"}"#,
                attachments: #"{"a.txt":{"content_type":"text/plain","data":"aGVsbG8="}}"#
            )
        )
        #expect(attached.revision == rev("1-4af538dccddc1de94d93b24764491400"))
    }

    /// The name that Sync Gateway 3.2.8 printed for the same document.
    @Test func namesOfTheThirdReleaseLeaveOutAttachments() throws {
        var desk = Desk()
        desk.rules.dialect = .third
        let attached = try desk.write(
            edit(
                #"{"owner":"jane","tag":"public"}"#,
                attachments: #"{"a.txt":{"content_type":"text/plain","data":"aGVsbG8="}}"#
            )
        )
        #expect(attached.revision == rev("1-cafddda77c1d4c1964473835a9c0e547"))
    }

    @Test func deletionIsPartOfTheNameEvenIfFalse() throws {
        let plain = RevisionRequest(.edit(parent: nil), .empty)
        let claimed = RevisionRequest(.edit(parent: nil), .empty, deletion: false)
        let rules = WriteRules.testing()
        #expect(!claimed.isDeleted)
        #expect(plain.name(replacing: nil, [], rules) != claimed.name(replacing: nil, [], rules))
    }

    @Test func newDocumentStoresItsWinner() throws {
        var desk = Desk()
        let assignment = SyncAssignment(channels: ["b", "a", "a"], access: ["jane": ["a"]])
        let write = try desk.write(edit(#"{"n":1}"#), .accepted(assignment))
        #expect(write.document.body == Array(#"{"n":1}"#.utf8))
        #expect(write.document.metadata.sequence == 1)
        #expect(write.document.metadata.recentSequences == [1])
        #expect(write.document.metadata.timeSaved == 7)
        #expect(write.document.metadata.channels(of: write.revision) == ["a", "b"])
        #expect(write.document.metadata.bodyLocation(of: write.revision) == .document)
        #expect(write.changed.access == ["jane"] && write.changed.roles.isEmpty)
        #expect(write.archived == nil && write.separateBodies.isEmpty && write.blobs.isEmpty)
    }

    @Test func replacedBodyIsArchived() throws {
        var desk = Desk()
        let first = try desk.write(edit(#"{"n":1}"#))
        let second = try desk.write(edit(#"{"n":2}"#, of: "\(first.revision)"))
        #expect(second.archived?.revision == first.revision)
        #expect(second.archived?.body.json == Array(#"{"n":1}"#.utf8))
        #expect(desk.document.metadata.bodyLocation(of: first.revision) == .archive)
        #expect(desk.document.metadata.bodyLocation(of: rev("9-x")) == .unknown)
        #expect(desk.document.metadata.recentSequences == [1, 2])
    }

    @Test func refusedWriteDrawsNoSequence() throws {
        let desk = Desk()
        let refusal = Refusal(403, "missing role")
        guard case .write(let plan) = WritePlan.make(try edit("{}"), on: desk.document, desk.rules)
        else {
            Issue.record("no plan")
            return
        }
        var drawn = 0
        let outcome = plan.commit(.refused(refusal), timeSaved: 0) {
            drawn += 1
            return 1
        }
        #expect(outcome == .refused(refusal) && drawn == 0)
    }

    @Test func editOfRevisionThatIsNoLeafIsRefused() throws {
        var desk = Desk()
        let first = try desk.write(edit(#"{"n":1}"#))
        #expect(desk.refusal(try edit(#"{"n":1}"#)) == .documentExists)
        #expect(desk.refusal(try edit("{}", deletes: true)) == .documentExists)
        #expect(desk.refusal(try edit("{}", of: "1-x")) == .staleRevision)
        _ = try desk.write(edit(#"{"n":2}"#, of: "\(first.revision)"))
        #expect(desk.refusal(try edit(#"{"n":2}"#, of: "\(first.revision)")) == .staleRevision)
    }

    @Test func repeatedEditSucceedsIfTheDatabaseAcceptsIt() throws {
        var desk = Desk()
        desk.rules.acceptsRepeatedEdits = true
        let first = try desk.write(edit(#"{"n":1}"#))
        // Without a revision to replace, the edit creates, and the document exists.
        #expect(desk.refusal(try edit(#"{"n":1}"#)) == .documentExists)
        let second = try desk.write(edit(#"{"n":2}"#, of: "\(first.revision)"))
        #expect(desk.known(try edit(#"{"n":2}"#, of: "\(first.revision)")) == second.revision)
        // The first edit was replaced: its author must learn that.
        #expect(desk.refusal(try edit(#"{"n":1}"#)) == .documentExists)
        _ = try desk.write(edit("{}", of: "\(second.revision)", deletes: true))
        let again = try edit("{}", of: "\(second.revision)", deletes: true)
        #expect(desk.refusal(again) == .staleRevision)
    }

    @Test func deletedDocumentContinuesItsGenerations() throws {
        var desk = Desk()
        let first = try desk.write(edit(#"{"n":1}"#))
        let tombstone = try desk.write(edit("{}", of: "\(first.revision)", deletes: true))
        #expect(tombstone.document.metadata.tree.winner?.isDeleted == true)
        let again = try desk.write(edit(#"{"n":1}"#))
        #expect(again.revision.generation == 3)
        #expect(again.document.metadata.tree[again.revision]?.parent == tombstone.revision)
        #expect(again.archived == nil)
    }

    @Test func lastGenerationCannotBeReplaced() throws {
        var desk = Desk()
        _ = try desk.write(replica("\(Int.max)-a", deletes: true))
        #expect(desk.refusal(try edit("{}")) == .invalidRevision)
        #expect(desk.refusal(try edit("{}", of: "\(Int.max)-a")) == .invalidRevision)
        let decoded = try DocumentMetadata(decoding: desk.document.metadata.encoded)
        #expect(decoded == desk.document.metadata)
    }

    // MARK: Branches

    @Test func losingRevisionKeepsItsBodyAndChangesNoChannels() throws {
        var desk = Desk()
        _ = try desk.write(replica("1-b", body: #"{"n":1}"#), .accepted(.init(channels: ["x"])))
        let write = try desk.write(
            replica("1-a", body: #"{"n":2}"#),
            .accepted(.init(channels: ["y"], access: ["jane": ["y"]]))
        )
        let metadata = write.document.metadata
        #expect(write.document.body == Array(#"{"n":1}"#.utf8))
        #expect(metadata.tree.hasConflict)
        #expect(metadata.channels.map(\.name) == ["x"])
        #expect(metadata.channels(of: rev("1-a")) == ["y"])
        #expect(metadata.access.grants.isEmpty && write.changed.access.isEmpty)
        let body = RevisionBody(json: Array(#"{"n":2}"#.utf8), attachments: [])
        #expect(metadata.bodyLocation(of: rev("1-a")) == .inline(body))
    }

    @Test func winningBranchKeepsTheBodyOfTheLosingOne() throws {
        var desk = Desk()
        let large = #"{"n":""# + String(repeating: "x", count: 300) + #""}"#
        _ = try desk.write(replica("1-a", body: large), .accepted(.init(channels: ["x"])))
        let write = try desk.write(
            replica("1-b", body: #"{"n":2}"#),
            .accepted(.init(channels: ["y"]))
        )
        #expect(write.document.metadata.bodyLocation(of: rev("1-a")) == .separate)
        #expect(write.separateBodies.map(\.revision) == [rev("1-a")])
        #expect(write.separateBodies.first?.body.json == Array(large.utf8))
        #expect(write.archived == nil)
        let left = write.document.metadata.channels.first { $0.name == "x" }?.removal
        #expect(left?.sequence == 2 && left?.revision == rev("1-b") && left?.isDeletion == false)
        #expect(write.document.metadata.channelsLeft(with: rev("1-b")) == ["x"])
    }

    @Test func deletedWinnerPromotesTheNextLeaf() throws {
        var desk = Desk()
        let large = #"{"n":""# + String(repeating: "x", count: 300) + #""}"#
        let attachments = #"{"t":{"data":"aGVsbG8="}}"#
        _ = try desk.write(
            replica("1-a", body: large, attachments: attachments),
            .accepted(.init(channels: ["x"]))
        )
        _ = try desk.write(replica("1-b", body: "{}"), .accepted(.init(channels: ["y"])))
        let request = try edit("{}", of: "1-b", deletes: true)
        guard case .write(let plan) = WritePlan.make(request, on: desk.document, desk.rules) else {
            Issue.record("no plan")
            return
        }
        #expect(plan.promoted == rev("1-a") && !plan.isWinner)
        let promoted = WritePlan.PromotedLeaf(
            json: Array(large.utf8),
            acceptance: .accepted(.init(channels: ["z"], roles: ["jane": ["role:r"]]))
        )
        let write = try desk.write(request, .accepted(.init()), promoted: promoted)
        let metadata = write.document.metadata
        #expect(metadata.tree.leafNames == ["1-a", "\(write.revision)!"])
        #expect(write.document.body == Array(large.utf8))
        #expect(write.removedBodies == [rev("1-a")])
        #expect(metadata.attachments.map(\.name) == ["t"])
        #expect(metadata.leafBodies.isEmpty)
        #expect(metadata.channels.filter(\.isCurrent).map(\.name) == ["z"])
        #expect(write.changed.roles == ["jane"])
        #expect(metadata.bodyLocation(of: write.revision) == .inline(RevisionBody()))
    }

    @Test func writeThatPromotesRefusedLeafIsRefused() throws {
        var desk = Desk()
        _ = try desk.write(replica("1-a"))
        _ = try desk.write(replica("1-b"))
        let refusal = Refusal(403, "no")
        let promoted = WritePlan.PromotedLeaf(json: [], acceptance: .refused(refusal))
        let before = desk.document
        #expect(throws: refusal) {
            try desk.write(edit("{}", of: "1-b", deletes: true), promoted: promoted)
        }
        #expect(desk.document == before && desk.sequence == 2)
    }

    @Test func outdatedTombstoneLosesItsBody() throws {
        var desk = Desk()
        desk.rules.revsLimit = 2
        _ = try desk.write(replica("1-a"))
        let large = #"{"n":""# + String(repeating: "x", count: 300) + #""}"#
        _ = try desk.write(replica("2-t", "1-t", body: large, deletes: true))
        #expect(desk.document.metadata.bodyLocation(of: rev("2-t")) == .separate)
        let history = (1...9).reversed().map { rev("\($0)-a") }
        let request = RevisionRequest(.replicated(history: history), .empty)
        let write = try desk.write(request)
        #expect(write.removedBodies == [rev("2-t")])
        #expect(write.document.metadata.tree.revisions.map(\.id) == revs("2-t", "8-a", "9-a"))
        #expect(desk.known(try replica("2-t", "1-t")) == rev("2-t"))
    }

    @Test func treeBeyondItsBoundIsRefused() throws {
        var desk = Desk()
        desk.rules.revsLimit = 1_000
        for branch in 0..<16 {
            let history = (1...1_000).reversed().map { rev("\($0)-b\(branch)") }
            let request = RevisionRequest(.replicated(history: history), .empty)
            _ = try desk.write(request)
        }
        let history = (1...1_000).reversed().map { rev("\($0)-c") }
        let request = RevisionRequest(.replicated(history: history), .empty)
        #expect(desk.refusal(request) == .treeTooLarge)
        desk.rules.revsLimit = 100
        let write = try desk.write(request)
        #expect(write.document.metadata.tree.count == 17 * 100)
    }

    // MARK: Attachments

    @Test func attachmentsFollowTheirDocument() throws {
        var desk = Desk()
        let first = try desk.write(edit("{}", attachments: #"{"a":{"data":"aGVsbG8="}}"#))
        #expect(first.blobs.map(\.digest) == [helloDigest])
        let stub = #"{"a":{"stub":true,"revpos":1},"b":{"data":"eA=="}}"#
        let second = try desk.write(edit("{}", of: "\(first.revision)", attachments: stub))
        #expect(desk.document.metadata.attachments.map(\.revpos) == [1, 2])
        #expect(second.blobs.count == 1 && second.condemnedBlobs.isEmpty)
        #expect(desk.document.metadata.revposMin(for: second.revision, known: []) == 1)
        let known = [first.revision]
        #expect(desk.document.metadata.revposMin(for: second.revision, known: known) == 2)
        let third = try desk.write(edit(#"{"n":3}"#, of: "\(second.revision)"))
        #expect(third.condemnedBlobs.contains(helloDigest) && third.condemnedBlobs.count == 2)
        #expect(third.archived?.body.attachments.count == 2)
    }

    @Test func branchSharesAttachmentsUpToTheCommonAncestor() throws {
        var desk = Desk()
        let data = #"{"a":{"data":"aGVsbG8="}}"#
        _ = try desk.write(replica("1-a", attachments: data))
        let more = #"{"a":{"stub":true,"revpos":1},"b":{"data":"eA=="}}"#
        _ = try desk.write(replica("2-b", "1-a", attachments: more))
        let stub = #"{"a":{"stub":true,"revpos":1}}"#
        let write = try desk.write(replica("2-a", "1-a", attachments: stub))
        #expect(
            write.document.metadata.leafBodies.first?.attachments.map(\.digest) == [helloDigest]
        )
        // What came after the common ancestor is not shared.
        let later = #"{"b":{"stub":true,"revpos":2}}"#
        #expect(desk.refusal(try replica("2-c", "1-a", attachments: later)) == .missingDigest("b"))
    }

    @Test func blobOfALosingLeafIsNotCondemned() throws {
        var desk = Desk()
        _ = try desk.write(replica("1-a", attachments: #"{"a":{"data":"aGVsbG8="}}"#))
        let stub = #"{"a":{"stub":true,"revpos":1}}"#
        _ = try desk.write(replica("2-b", "1-a", attachments: stub))
        _ = try desk.write(replica("2-a", "1-a", attachments: stub))
        let winner = try desk.write(replica("3-b", "2-b"))
        #expect(winner.condemnedBlobs.isEmpty)
        let loser = try desk.write(replica("3-a", "2-a"))
        #expect(loser.condemnedBlobs == [helloDigest])
    }

    @Test func stubOfAnUnknownBlobIsRequired() throws {
        let desk = Desk()
        let stub = #"{"a":{"stub":true,"revpos":1,"digest":"sha1-x"}}"#
        let request = try replica("3-a", attachments: stub)
        guard case .write(let plan) = WritePlan.make(request, on: desk.document, desk.rules) else {
            Issue.record("no plan")
            return
        }
        #expect(plan.requiredBlobs.map(\.digest) == ["sha1-x"])
        #expect(plan.ancestors.isEmpty)
    }
}
