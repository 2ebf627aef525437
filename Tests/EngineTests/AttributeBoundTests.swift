import Engine
import Testing
import Vocabulary

/// The bounds of writes over documents with extended attributes: size, and memory.
@Suite struct AttributeBoundTests {
    private func increment(_ document: AttributedDocument) -> String {
        document.run { core, key, hash, turn in
            let request = ArithmeticRequest(
                key: key,
                hash: hash,
                isIncrement: true,
                delta: 1,
                initial: nil,
                expiry: 0,
                cas: .none
            )
            return core.arithmetic(request, turn)
        }
    }

    private func delete(_ document: AttributedDocument) -> String {
        document.run { $0.delete($1, hash: $2, cas: .none, $3) }
    }

    /// The user's attributes and the body fill 20 MiB, so the number may not get a second digit.
    @Test func counterBesideLargestAttributesCannotGrow() throws {
        let document = try AttributedDocument()
        // Beside the attribute's value are its key, its length, two NULs, and the digit.
        let text = String(repeating: "1", count: Limits.valueBytesMax - 11)
        let value = xattrs(["user": text], body: "8")
        let stored = document.store(value, datatype: .xattr, attributes: .replace)
        #expect(stored == "document[user]8")
        #expect(increment(document) == "document[user]9")
        #expect(increment(document) == "tooLarge")
        #expect(document.description == "document[user]9" && document.isConsistent)
    }

    /// Memory that is full by fetched values must not grow by what deletions keep of them.
    @Test func deletionThatKeepsAttributesNeedsRoom() throws {
        let document = try AttributedDocument(.system)
        let account = document.bucket.account
        let quota = account.quota
        account.quota = account.bytes
        #expect(delete(document).hasPrefix("noRoom"))
        #expect(document.description == "document[user,_sys]5" && document.isConsistent)
        account.quota = quota
        #expect(delete(document) == "tombstone[_sys]")
        #expect(document.isConsistent)
    }

    /// A deletion uses the bytes above the ceiling of other writes.
    @Test func deletionThatKeepsAttributesFitsAboveCeiling() throws {
        let document = try AttributedDocument(.system, body: String(repeating: "5", count: 20_000))
        let account = document.bucket.account
        // 93 % of the quota are less than what is in use, and 99 % leave room for the attributes.
        account.quota = account.bytes + account.bytes / 18
        let room = account.quota / 100 * 99
        try #require(account.bytes > account.ceiling && room > account.bytes + 300)
        #expect(document.store(Array("9".utf8)).hasPrefix("noRoom"))
        #expect(delete(document) == "tombstone[_sys]")
    }

    @Test(arguments: [AttributedDocument.State.plain, .user])
    func deletionWithoutSystemAttributesNeedsNoRoom(state: AttributedDocument.State) throws {
        let document = try AttributedDocument(state)
        document.bucket.account.quota = document.bucket.account.bytes
        #expect(delete(document) == "tombstone[]")
        #expect(document.isConsistent)
    }
}
