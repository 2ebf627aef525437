import Bytes
import Indexing
import Testing
import ViewService
import Vocabulary

/// Items of a feed as bytes, and the position that follows them.
@Suite struct ChangeRecordTests {
    private let meta = DocumentMeta(
        seqno: Seqno(7),
        cas: CAS(0x0102_0304_0506_0708),
        revision: 9,
        flags: 0xa0b0_c0d0,
        expiry: 1_700_000_000,
        datatype: .json
    )

    private func records(_ bytes: ByteWriter) -> [ChangeRecord] {
        var reader = ChangeRecord.Reader(bytes.view)
        var records: [ChangeRecord] = []
        while let record = reader.next() { records.append(record) }
        return records
    }

    @Test func recordsAreReadAsTheyWereAppended() throws {
        let output = ByteWriter()
        let (key, value) = (Array("key".utf8), Array("{\"a\":1}".utf8))
        ChangeRecord.snapshot(start: Seqno(3), end: Seqno(8)).append(to: output)
        key.withUnsafeBytes { key in
            value.withUnsafeBytes { value in
                ChangeRecord.change(meta, key: ByteView(key), value: ByteView(value))
                    .append(to: output)
            }
        }
        ChangeRecord.advanced(to: Seqno(11)).append(to: output)
        ChangeRecord.purged.append(to: output)
        ChangeRecord.ended.append(to: output)
        let records = records(output)
        try #require(records.count == 5)
        guard case .snapshot(let start, let end) = records[0],
            case .change(let read, let readKey, let readValue) = records[1],
            case .advanced(let seqno) = records[2], case .purged = records[3],
            case .ended = records[4]
        else {
            Issue.record("the kinds are \(records)")
            return
        }
        #expect(start == Seqno(3) && end == Seqno(8) && seqno == Seqno(11))
        #expect(read == meta && readKey.bytes == key && readValue.bytes == value)
    }

    @Test func tombstoneIsReadAsATombstone() {
        var meta = meta
        meta.isDeleted = true
        let output = ByteWriter()
        ChangeRecord.change(meta, key: .empty, value: .empty).append(to: output)
        guard case .change(let read, _, _) = records(output).first else {
            Issue.record("no change was read")
            return
        }
        #expect(read.isDeleted && read == meta)
    }

    @Test func positionFollowsChangesAndAdvancesOverInvisibleOnes() {
        var read = ReadPosition(.zero)
        read.follow(.snapshot(start: Seqno(0), end: Seqno(8)))
        read.follow(.change(meta, key: .empty, value: .empty))
        #expect(read.position.seqno == Seqno(7) && read.position.snapshotEnd == Seqno(8))
        // An abort has seqno 9: no document of a client has changed.
        read.follow(.advanced(to: Seqno(9)))
        #expect(read.position.seqno == Seqno(9))
        #expect(read.position.snapshotStart == Seqno(9) && read.position.snapshotEnd == Seqno(9))
    }
}

/// The arguments of map functions.
@Suite struct MapInputTests {
    private func texts(
        _ meta: DocumentMeta,
        key: [UInt8],
        value: [UInt8]
    ) -> (meta: String, body: String)? {
        let input = MapInput()
        return key.withUnsafeBytes { key in
            value.withUnsafeBytes { value in
                input.arguments(
                    meta,
                    vBucket: VBucketID(12),
                    key: ByteView(key),
                    value: ByteView(value)
                )
                .map { ($0.meta.text, $0.body.text) }
            }
        }
    }

    @Test func metaHasTheMembersOfCouchbase() throws {
        let meta = DocumentMeta(
            seqno: Seqno(34),
            cas: CAS(0x16),
            revision: 3,
            flags: 0x2000_0006,
            expiry: 0x1000,
            datatype: .json
        )
        let found = texts(meta, key: Array("a\"b".utf8), value: Array("{\"x\":1}".utf8))
        let texts = try #require(found)
        #expect(
            texts.meta == #"{"id":"a\"b","rev":"3-0000000000000016"#
                + #"0000100020000006","flags":536870918,"expiration":4096,"type":"json","#
                + #""vb":"12","seq":"34","cas":"22","xattrs":{}}"#
        )
        #expect(texts.body == #"{"x":1}"#)
    }

    @Test func documentThatIsNotJSONIsBase64() throws {
        let found = texts(DocumentMeta(seqno: Seqno(1)), key: [0x6b], value: [0xff, 0, 0x41])
        let texts = try #require(found)
        #expect(texts.body == "\"/wBB\"")
        #expect(texts.meta.contains(#""type":"base64","att_reason":"non-JSON mode""#))
    }

    /// Earlier releases stored the datatype that a client declared.
    @Test(arguments: [#"1,{"id":"v"},2"#, #"{"x": NaN}"#, ""])
    func valueThatIsWronglyDeclaredAsJSONIsBase64(_ value: String) throws {
        let bytes = Array(value.utf8)
        let encoded = bytes.withUnsafeBytes { Base64.encode(ByteView($0)) }
        let base64 = "\"" + String(decoding: encoded, as: UTF8.self) + "\""
        let meta = DocumentMeta(seqno: Seqno(1), datatype: .json)
        let found = texts(meta, key: [0x6b], value: bytes)
        let mapped = try #require(found)
        #expect(mapped.body == base64)
        #expect(mapped.meta.contains(#""type":"base64","att_reason":"non-JSON mode""#))
        let input = MapInput()
        let included = [UInt8]("k".utf8).withUnsafeBytes { key in
            bytes.withUnsafeBytes { value in
                input.included(meta, key: ByteView(key), value: ByteView(value))
                    .map { $0.meta.text + $0.body.text }
            }
        }
        #expect(included?.hasSuffix(#""type":"base64"}"# + base64) == true)
    }

    /// The stored form of attributes and a body.
    private static func stored(_ pairs: [(String, String)], _ body: String) -> [UInt8] {
        let writer = ByteWriter()
        let attributes = XattrWriter.begin(writer)
        for (key, value) in pairs {
            Array(key.utf8).withUnsafeBytes { key in
                Array(value.utf8).withUnsafeBytes { value in
                    attributes.append(key: ByteView(key), value: ByteView(value))
                }
            }
        }
        #expect(attributes.end())
        writer.append(text: body)
        return writer.bytes
    }

    @Test func metaHasAttributesAndBodyNone() throws {
        // Binary attributes have no place in JSON.
        let pairs = [("_sync", #"{"rev":1}"#), ("raw", "\u{1}binary"), ("color", #""red""#)]
        let value = Self.stored(pairs, #"{"x":1}"#)
        let meta = DocumentMeta(seqno: Seqno(1), datatype: [.json, .xattr])
        let found = texts(meta, key: [0x6b], value: value)
        let texts = try #require(found)
        #expect(texts.meta.hasSuffix(#""xattrs":{"_sync":{"rev":1},"color":"red"}}"#))
        #expect(texts.meta.contains(#""type":"json""#))
        #expect(texts.body == #"{"x":1}"#)
    }

    @Test func tombstoneWithAttributesHasEmptyBody() throws {
        let value = Self.stored([("_sync", "1")], "")
        let meta = DocumentMeta(seqno: Seqno(1), datatype: .xattr, isDeleted: true)
        let found = texts(meta, key: [0x6b], value: value)
        let texts = try #require(found)
        #expect(texts.meta.hasSuffix(#""xattrs":{"_sync":1}}"#) && texts.body == "\"\"")
    }

    @Test func includedDocumentHasBodyAlone() throws {
        let value = Self.stored([("_sync", "1")], "{}")
        let meta = DocumentMeta(seqno: Seqno(1), datatype: [.json, .xattr])
        let input = MapInput()
        let body = [UInt8]("k".utf8).withUnsafeBytes { key in
            value.withUnsafeBytes {
                input.included(meta, key: ByteView(key), value: ByteView($0))?.body.text
            }
        }
        #expect(body == "{}")
    }

    @Test func keyThatIsNotUTF8HasNoArguments() {
        #expect(texts(DocumentMeta(), key: [0xff], value: []) == nil)
    }
}
