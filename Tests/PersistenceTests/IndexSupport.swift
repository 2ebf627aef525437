import Bytes
import Foundation
import Persistence
import TestSupport
import Testing
import Vocabulary

/// A directory of index files that is removed after the test.
final class TemporaryIndex {
    let root = FileManager.default.temporaryDirectory
        .appending(path: "divan-index-\(UUID().uuidString)").path
    static let signature = "00112233445566778899aabbccddeeff"
    var settings = IndexSettings()
    var path: String { "\(root)/\(TemporaryIndex.signature).sqlite" }

    deinit { try? FileManager.default.removeItem(atPath: root) }

    static func identity(
        signature: String = TemporaryIndex.signature,
        collator: String = "153.120/15.0",
        bucketUUID: String = "b1",
        mapSource: String = "function (doc) { emit(doc.age, null) }"
    ) -> IndexIdentity {
        IndexIdentity(
            signature: signature,
            collator: collator,
            bucketUUID: bucketUUID,
            mapSource: mapSource
        )
    }

    func directory() throws -> IndexDirectory { try IndexDirectory(path: root, disk: FileDisk()) }

    func open(_ identity: IndexIdentity = TemporaryIndex.identity()) throws -> IndexFile {
        try IndexFile(in: try directory(), identity: identity, settings: settings)
    }

    /// Runs SQL on the file, which no `IndexFile` may have open.
    func execute(_ sql: String) throws {
        try SQLiteConnection(path: path, mode: .write, vfs: nil).execute(sql)
    }

    /// The error of opening the file.
    func refusal(_ identity: IndexIdentity = TemporaryIndex.identity()) -> StorageError? {
        do {
            _ = try open(identity)
            return nil
        } catch {
            return error as? StorageError
        }
    }

    /// A copy of the file and its WAL, as a process crash at this moment would leave them.
    func copy() throws -> TemporaryIndex {
        let other = TemporaryIndex()
        try FileManager.default.createDirectory(
            atPath: other.root,
            withIntermediateDirectories: true
        )
        for suffix in ["", "-wal"] where FileManager.default.fileExists(atPath: path + suffix) {
            try FileManager.default.copyItem(atPath: path + suffix, toPath: other.path + suffix)
        }
        return other
    }

    func change(suffix: String = "", _ body: (inout Data) -> Void) throws {
        let url = URL(filePath: path + suffix)
        var data = try Data(contentsOf: url)
        body(&data)
        try data.write(to: url)
    }
}

/// A body with a checksum that covers its node's number, as the bodies of tree nodes have.
func indexBody(_ id: UInt64, _ content: [UInt8]) -> [UInt8] {
    let writer = ByteWriter()
    writer.append(content)
    let number = withUnsafeBytes(of: id) { CRC32.checksum(ByteView($0)) }
    writer.append(littleEndian: CRC32.checksum(writer.view, seed: number))
    return writer.bytes
}

/// The content of such a body; nil if it does not match its checksum.
func indexContent(_ id: UInt64, _ body: ByteView) -> [UInt8]? {
    guard body.count >= 4 else { return nil }
    let content = body.slice(0, body.count - 4)
    let number = withUnsafeBytes(of: id) { CRC32.checksum(ByteView($0)) }
    let expected = body.littleEndian(at: content.count, as: UInt32.self)
    return CRC32.checksum(content, seed: number) == expected ? content.bytes : nil
}

extension IndexTransaction {
    func write(node id: UInt64, _ content: [UInt8]) throws(StorageError) {
        try writeBeyondHead(node: id, content)
        if head.nextNode.value <= id { head.nextNode = IndexNodeID(id + 1) }
    }

    func writeBeyondHead(node id: UInt64, _ content: [UInt8]) throws(StorageError) {
        try lend(indexBody(id, content)) { body throws(StorageError) in
            try write(IndexNodeID(id), body)
        }
    }

    func write(value id: UInt64, _ bytes: [UInt8]) throws(StorageError) {
        try lend(bytes) { body throws(StorageError) in try write(IndexValueID(id), body) }
    }

    func write(
        reduction slot: IndexSlotID,
        _ node: UInt64,
        _ bytes: [UInt8]
    ) throws(StorageError) {
        try lend(bytes) { body throws(StorageError) in
            try writeReduction(slot, IndexNodeID(node), body: body)
        }
    }

    func write(log bytes: [UInt8]) throws(StorageError) {
        try lend(bytes) { body throws(StorageError) in try writeLogEntry(body) }
    }

    func write(
        chunk number: UInt32,
        _ run: IndexRunID,
        _ bytes: [UInt8]
    ) throws(StorageError) {
        try lend(bytes) { body throws(StorageError) in
            try writeChunk(number, of: run, body)
        }
    }

    private func lend(
        _ bytes: [UInt8],
        _ body: (ByteView) throws(StorageError) -> Void
    ) throws(StorageError) {
        let writer = ByteWriter()
        writer.append(bytes)
        defer { withExtendedLifetime(writer) {} }
        try body(writer.view)
    }
}

extension IndexReads {
    /// The content of a node; nil if there is none.
    func content(_ id: UInt64) throws(StorageError) -> [UInt8]? {
        try withNode(IndexNodeID(id)) { body throws(StorageError) in
            guard let content = indexContent(id, body) else {
                throw StorageError(.damaged, "node \(id) does not match its checksum")
            }
            return content
        }
    }

    func value(_ id: UInt64) throws(StorageError) -> [UInt8]? {
        let writer = ByteWriter()
        return try value(IndexValueID(id), into: writer) ? writer.bytes : nil
    }

    func reduction(_ slot: IndexSlotID, _ node: UInt64) throws(StorageError) -> [UInt8]? {
        let writer = ByteWriter()
        return try reduction(slot, IndexNodeID(node), into: writer) ? writer.bytes : nil
    }

    func chunk(_ number: UInt32, _ run: IndexRunID) throws(StorageError) -> [UInt8]? {
        let writer = ByteWriter()
        return try chunk(number, of: run, into: writer) ? writer.bytes : nil
    }

    func log(after commit: UInt64 = 0) throws(StorageError) -> [UInt64: [UInt8]] {
        var found: [UInt64: [UInt8]] = [:]
        try forEachLogEntry(after: IndexCommit(commit)) { commit, body in
            found[commit.value] = body.bytes
            return true
        }
        return found
    }
}
