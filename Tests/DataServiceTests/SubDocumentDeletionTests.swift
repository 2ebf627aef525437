import DataService
import TestWorld
import Testing

/// Deletion of a whole document by a sub-document mutation.
@Suite struct SubDocumentDeletionTests {
    private let world = TestWorld()

    /// Without flags, and with access to deleted documents.
    @Test(arguments: [0, 4] as [UInt8])
    func deletionOfMissingDocumentIsAnsweredWithoutPath(_ flags: UInt8) throws {
        try world.service.open(TestWorld.settings("guests"))
        let client = world.client(of: "guests")
        // DELETE, no flags, an empty path and an empty value.
        let path: [UInt8] = [0x04, 0, 0, 0, 0, 0, 0, 0]
        let request = Ask.on(0xd1, "k", path, extras: flags == 0 ? [] : [flags])
        let replies = client.ask(request)
        #expect(replies.map(\.status) == [1])
        #expect(replies.first?.value == [])
        _ = client.ask(Ask.set("k", "{}"))
        #expect(client.ask(request).map(\.status) == [0])
    }
}
