import Revisions
import SyncWire
import Testing

@Suite struct RevisionNodeTests {
    @Test func revisionIsLiveUnlessItDeletes() throws {
        let first = try #require(RevisionID("1-a"))
        #expect(!RevisionNode(first, parent: nil).isDeleted)
    }
}
