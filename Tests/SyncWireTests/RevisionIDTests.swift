import SyncWire
import Testing

@Suite struct RevisionIDTests {
    @Test(arguments: ["1-a", "12-7051cbe5c8faecd085a3fa619e6e6337", "3--", "9223372036854775807-x"])
    func revisionIDsHaveOneText(text: String) {
        #expect(RevisionID(text)?.description == text)
    }

    @Test(arguments: [
        "", "-", "1-", "-a", "0-a", "a-1", "1", " 1-a", "9223372036854775808-a", "+1-a",
    ])
    func malformedRevisionIDIsRefused(text: String) {
        #expect(RevisionID(text) == nil)
    }

    @Test func revisionIDsAreBounded() {
        let digest = String(repeating: "a", count: RevisionID.bytesMax - 2)
        #expect(RevisionID("1-" + digest) != nil)
        #expect(RevisionID("1-a" + digest) == nil)
    }

    @Test func generationCountsBeforeDigest() throws {
        let ordered = try ["1-ff", "2-0a", "2-0b", "10-00"].map { try #require(RevisionID($0)) }
        #expect(ordered.shuffled().sorted() == ordered)
    }
}
