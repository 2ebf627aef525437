import Bytes
import JSON
import Revisions
import SyncWire
import Testing

@Suite struct AttachmentTests {
    private func stored(_ name: String, _ digest: String, revpos: Int) -> StoredAttachment {
        var attachment = StoredAttachment()
        attachment.name = name
        attachment.digest = digest
        attachment.revpos = revpos
        attachment.length = 3
        return attachment
    }

    private func json(_ merge: AttachmentMerge) -> String {
        let tree = StoredAttachment.json(merge.attachments)
        return String(decoding: JSONWriter.text { $0.value(tree) }, as: UTF8.self)
    }

    @Test func newDataHasTheGenerationOfItsRevision() throws {
        let merge = try AttachmentMerge(
            sent(
                #"{"a":{"data":"aGVs\r\nbG8=","content_type":"text/plain","revpos":1,"length":99}}"#
            ),
            inherited: [stored("a", "sha1-old", revpos: 1)],
            generation: 4
        )
        let metadata = #""digest":"\#(helloDigest)","length":5,"revpos":4,"stub":true"#
        #expect(json(merge) == #"{"a":{"content_type":"text/plain",\#(metadata)}}"#)
        let blob = AttachmentBlob(digest: helloDigest, length: 5, bytes: Array("hello".utf8))
        #expect(merge.blobs == [blob])
        #expect(merge.requiredBlobs.isEmpty)
    }

    @Test func encodedDataKeepsTheLengthThatItsAuthorNames() throws {
        let text = #"{"a":{"data":"aGVsbG8=","encoding":"gzip","length":30}}"#
        let merge = try AttachmentMerge(sent(text), inherited: [], generation: 1)
        let metadata = #""encoded_length":5,"encoding":"gzip","length":30,"revpos":1,"stub":true"#
        #expect(json(merge) == #"{"a":{"digest":"\#(helloDigest)",\#(metadata)}}"#)
    }

    @Test func equalContentsAreOneBlob() throws {
        let text = #"{"b":{"data":"aGVsbG8="},"a":{"data":"aGVsbG8="}}"#
        let merge = try AttachmentMerge(sent(text), inherited: [], generation: 1)
        #expect(merge.attachments.map(\.name) == ["a", "b"])
        #expect(merge.blobs.count == 1)
    }

    @Test func stubTakesOverTheMetadataOfItsAncestor() throws {
        let old = stored("a", "sha1-old", revpos: 2)
        let text = #"{"a":{"stub":true,"revpos":7,"digest":"sha1-x","content_type":"x/y"}}"#
        let merge = try AttachmentMerge(sent(text), inherited: [old], generation: 9)
        #expect(merge.attachments == [old])
        #expect(merge.blobs.isEmpty && merge.requiredBlobs.isEmpty)
    }

    @Test func stubOfAnotherDatabaseIsStoredAsSentAndNeedsItsBlob() throws {
        let text = #"{"a":{"stub":true,"revpos":7,"digest":"md5-x","length":8}}"#
        let merge = try AttachmentMerge(sent(text), inherited: [], generation: 3)
        #expect(json(merge) == #"{"a":{"digest":"md5-x","length":8,"revpos":7,"stub":true}}"#)
        #expect(merge.requiredBlobs == merge.attachments)
    }

    @Test func attachmentAbsentFromTheRequestIsRemoved() throws {
        let old = stored("a", "sha1-old", revpos: 2)
        let merge = try AttachmentMerge(sent("{}"), inherited: [old], generation: 3)
        #expect(merge.attachments.isEmpty)
        #expect(try sent("null").isEmpty)
    }

    @Test(arguments: [
        (#"[]"#, Refusal.invalidAttachments), (#"{"a":1}"#, .invalidAttachments),
        (#"{"a":{}}"#, .missingData("a")), (#"{"a":{"stub":false}}"#, .missingData("a")),
        (#"{"a":{"data":null}}"#, .missingData("a")),
        (#"{"a":{"follows":true}}"#, .missingData("a")),
        (#"{"a":{"stub":true}}"#, .invalidRevpos("a")),
        (#"{"a":{"stub":true,"revpos":0}}"#, .invalidRevpos("a")),
        (#"{"a":{"stub":true,"revpos":"1"}}"#, .invalidRevpos("a")),
        (#"{"a":{"stub":true,"revpos":1}}"#, .missingDigest("a")),
        (#"{"a":{"data":"?"}}"#, .invalidAttachmentData),
        (#"{"_a":{"data":"aGVsbG8="}}"#, .invalidAttachmentName("_a")),
    ])
    func invalidAttachmentIsRefused(text: String, refusal: Refusal) {
        #expect(throws: refusal) {
            try AttachmentMerge(sent(text), inherited: [], generation: 1)
        }
        #expect(refusal.status == 400)
    }

    @Test(arguments: [
        ("5", "float64"), ("true", "bool"), ("[]", "[]interface {}"),
        ("{}", "map[string]interface {}"),
    ])
    func dataThatIsNoStringIsRefusedWithGosNameOfItsType(data: String, type: String) {
        let refusal = Refusal(400, "invalid attachment data (type \(type))")
        #expect(throws: refusal) { try sent("{\"a\":{\"data\":\(data)}}") }
    }

    @Test func reasonsAreThoseOfSyncGateway() {
        #expect(Refusal.missingData("a b").reason == #"Missing data of attachment "a b""#)
        let revpos = #"Missing/invalid revpos in stub attachment "a""#
        #expect(Refusal.invalidRevpos("a").reason == revpos)
        #expect(Refusal.missingDigest("a").reason == #"Missing digest in stub attachment "a""#)
        #expect(Refusal.missingBlob("a").status == 412)
    }

    // MARK: Parts

    private func part(_ name: String, length: Int = 3) -> AttachmentParts.Part {
        AttachmentParts.Part(sha1: "sha1-\(name)", md5: "md5-\(name)", length: length)
    }

    private let followers = #"""
        {"a":{"follows":true,"digest":"sha1-1","length":3},
         "b":{"follows":true,"digest":"md5-2","length":9,"encoding":"gzip","encoded_length":3},
         "c":{"stub":true,"revpos":1}}
        """#

    @Test func partsAreMatchedByDigestInAnyOrder() throws {
        let matched = try AttachmentParts.match(
            [part("2"), part("1")],
            to: sent(followers),
            order: []
        )
        let blob = AttachmentBlob(digest: "sha1-2", length: 3, bytes: nil)
        #expect(matched.map(\.content)[1...] == [.blob(blob), .stub])
    }

    @Test func partsWithoutDigestAreMatchedInOrder() throws {
        let text =
            #"{"z":{"follows":true},"a":{"follows":true},"m":{"follows":true,"digest":"sha1-2"}}"#
        let parts = [part("1"), part("2"), part("3")]
        let matched = try AttachmentParts.match(parts, to: sent(text), order: ["z", "a", "m"])
        let digests = matched.map { attachment in
            if case .blob(let blob) = attachment.content { return blob.digest }
            return ""
        }
        #expect(digests == ["sha1-3", "sha1-2", "sha1-1"])
    }

    @Test func unmatchedAttachmentPartsAreRefused() throws {
        let attachments = try sent(followers)
        func match(_ parts: [AttachmentParts.Part]) throws -> [SentAttachment] {
            try AttachmentParts.match(parts, to: attachments, order: [])
        }
        #expect(throws: Refusal.unexpectedPart(3)) { try match([part("1"), part("7")]) }
        #expect(throws: Refusal.tooFewParts(expected: 2, read: 1)) { try match([part("1")]) }
        #expect(throws: Refusal.tooManyParts(expected: 3)) {
            try match([part("1"), part("2"), part("3")])
        }
        let mismatch = Refusal.lengthMismatch("b", read: 4, expected: 3)
        #expect(throws: mismatch) { try match([part("2", length: 4)]) }
        let reason = #"Attachment length mismatch for "b": read 4 bytes, should be 3"#
        #expect(mismatch.reason == reason)
    }
}
