import Bytes
import Revisions
import SyncWire
import Testing

@Suite struct ReassignmentTests {
    private func assignment(_ channels: String..., users: [String] = []) -> SyncAssignment {
        var assignment = SyncAssignment(channels: channels)
        for user in users { assignment.access[user] = channels }
        return assignment
    }

    private func desk() throws -> Desk {
        var desk = Desk()
        _ = try desk.write(edit("{\"n\":1}"), .accepted(assignment("a", users: ["jane"])))
        return desk
    }

    @Test func equalAssignmentChangesNothing() throws {
        let desk = try desk()
        var change = Reassignment(of: desk.document)
        let winner = try #require(change.leaves.first?.id)
        change.assign(assignment("a", "a", users: ["jane"]), to: winner)
        #expect(!change.isChange)
    }

    @Test func otherChannelsGrantsAndRolesAreChanges() throws {
        let desk = try desk()
        var role = assignment("a", users: ["jane"])
        role.roles["jane"] = ["role"]
        for other in [
            assignment("a"), assignment("a", "b", users: ["jane"]), SyncAssignment(),
            assignment("a", users: ["jane", "joe"]), role,
        ] {
            var change = Reassignment(of: desk.document)
            let winner = try #require(change.leaves.first?.id)
            change.assign(other, to: winner)
            #expect(change.isChange)
        }
    }

    @Test func reassignedDocumentHasNewChannelsAndOldRevisions() throws {
        let desk = try desk()
        var change = Reassignment(of: desk.document)
        let winner = try #require(change.leaves.first?.id)
        change.assign(assignment("b", users: ["joe"]), to: winner)
        let write = change.write(at: 5, timeSaved: 9)
        let metadata = write.document.metadata
        #expect(write.revision == winner)
        #expect(
            metadata.tree.revisions.map(\.id) == desk.document.metadata.tree.revisions.map(\.id)
        )
        #expect(metadata.sequence == 5)
        #expect(metadata.recentSequences == [1, 5])
        #expect(metadata.channels(of: winner) == ["b"])
        #expect(metadata.channels.map(\.name) == ["a", "b"])
        #expect(metadata.channels[0].removal?.sequence == 5)
        #expect(metadata.channels[1].entered == 5)
        #expect(metadata.access.grants.map(\.principal) == ["joe"])
        #expect(write.changed.access == ["jane", "joe"])
        #expect(write.document.body == desk.document.body)
        let decoded = try StoredDocument(decoding: write.document.encoded)
        #expect(decoded == write.document)
    }

    @Test func losingLeafChangesItsOwnChannelsOnly() throws {
        var desk = try desk()
        _ = try desk.write(replica("1-0"), .accepted(assignment("x")))
        var change = Reassignment(of: desk.document)
        #expect(change.leaves.count == 2)
        let winner = try #require(change.leaves.first?.id)
        change.assign(assignment("a", users: ["jane"]), to: winner)
        change.assign(assignment("y"), to: rev("1-0"))
        #expect(change.isChange)
        let metadata = change.write(at: 5, timeSaved: 9).document.metadata
        #expect(metadata.channels(of: rev("1-0")) == ["y"])
        #expect(metadata.channels.filter(\.isCurrent).map(\.name) == ["a"])
        #expect(metadata.access == desk.document.metadata.access)
    }
}
