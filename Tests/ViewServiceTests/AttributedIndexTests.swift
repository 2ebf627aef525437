import Bytes
import Testing
import ViewService
import Vocabulary

/// Extended attributes in an index, with the real script program.
@Suite(.serialized) struct AttributedIndexTests {
    private let world = IndexWorld()
    private static let source =
        "function (doc, meta) { if (meta.xattrs._sync) emit(meta.xattrs._sync.at, doc.a); }"

    @Test func attributesAreMappedBesideTheBody() throws {
        defer { world.stop() }
        let attributes = ("_sync", #"{"at":7}"#)
        world.changes.put("a", attributes: attributes, body: #"{"a":1}"#, isDeleted: false)
        world.changes.put("b", #"{"a":2}"#)
        let index = try world.index(Self.source)
        try world.awaitFresh(index)
        #expect(try world.rows(index) == ["7 a 1"])
        // Without the option, a tombstone has no rows.
        world.changes.put("a", attributes: attributes, body: "", isDeleted: true)
        try world.awaitFresh(index)
        #expect(try world.rows(index) == [])
    }

    @Test func tombstonesWithAttributesAreMappedByOption() throws {
        defer { world.stop() }
        let attributes = ("_sync", #"{"at":7}"#)
        world.changes.put("a", attributes: attributes, body: #"{"a":1}"#, isDeleted: false)
        world.changes.put("b", attributes: attributes, body: "", isDeleted: true)
        world.changes.put("c", #"{"a":2}"#)
        world.changes.delete("c")
        let index = try world.index(Self.source, mapsTombstones: true)
        try world.awaitFresh(index)
        #expect(try world.rows(index) == ["7 a 1", "7 b null"])
        world.changes.put("a", attributes: ("_sync", #"{"at":8}"#), body: "", isDeleted: true)
        world.changes.delete("b")
        try world.awaitFresh(index)
        #expect(try world.rows(index) == ["8 a null"])
    }
}

extension MemoryChanges {
    /// A version with extended attributes, in its stored form.
    func put(_ key: String, attributes: (String, String), body: String, isDeleted: Bool) {
        let writer = ByteWriter()
        let pairs = XattrWriter.begin(writer)
        Array(attributes.0.utf8).withUnsafeBytes { key in
            Array(attributes.1.utf8).withUnsafeBytes { value in
                pairs.append(key: ByteView(key), value: ByteView(value))
            }
        }
        #expect(pairs.end())
        writer.append(text: body)
        let datatype: Datatype = body.isEmpty ? .xattr : [.json, .xattr]
        change(key, writer.bytes, isDeleted: isDeleted, datatype: datatype)
    }
}
