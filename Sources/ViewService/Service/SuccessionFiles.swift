package import Bytes
internal import Persistence
internal import Seams

/// Keeps the `ViewSuccession` of each bucket in the file `definitions` of its directory, so that previous
/// definitions still answer after a restart.
///
/// A file that is missing or damaged costs only that: changed views are then named in `errors` rows until
/// they are built.
package struct SuccessionFiles {
    private static let name = "definitions"
    private static let magic: UInt32 = 0x4456_4445
    private static let format: UInt32 = 1

    private enum Reduce {
        static let none: UInt8 = 0
        static let count: UInt8 = 1
        static let sum: UInt8 = 2
        static let stats: UInt8 = 3
        static let custom: UInt8 = 4
    }

    private let root: String
    private let disk: any Disk
    /// What the files have, by the bucket's UUID.
    private(set) var stored: [String: ViewSuccession] = [:]

    /// Reads the files below `root`; what cannot be read is missing.
    init(_ root: String, _ disk: any Disk) {
        self.root = root
        self.disk = disk
        for uuid in (try? disk.list(root)) ?? [] {
            guard let bytes = try? disk.read(path(uuid)) else { continue }
            stored[uuid] = bytes.withUnsafeBytes { SuccessionFiles.decode(ByteView($0)) }
        }
    }

    private func path(_ uuid: String) -> String { "\(root)/\(uuid)/\(SuccessionFiles.name)" }

    /// Writes a bucket's file if it has changed.
    ///
    /// - Throws: `StorageError` if the file cannot be written; the call may be repeated.
    mutating func store(_ succession: ViewSuccession, ofBucket uuid: String) throws(StorageError) {
        guard stored[uuid, default: ViewSuccession()] != succession else { return }
        _ = try IndexDirectory(path: "\(root)/\(uuid)", disk: disk)
        do throws(DiskError) {
            try disk.replace(path(uuid), with: SuccessionFiles.encode(succession))
        } catch {
            throw StorageError(.failed, "\(path(uuid)): \(error)")
        }
        stored[uuid] = succession
    }

    /// Forgets the files of buckets whose directories are removed.
    mutating func keep(_ uuids: Set<String>) {
        stored = stored.filter { uuids.contains($0.key) }
    }

    // MARK: Encoding

    package static func encode(_ succession: ViewSuccession) -> [UInt8] {
        let output = ByteWriter()
        output.append(bigEndian: magic)
        output.append(bigEndian: format)
        let definitions = succession.complete.values.sorted {
            ($0.designDocument, $0.view) < ($1.designDocument, $1.view)
        }
        output.append(bigEndian: UInt32(definitions.count))
        for definition in definitions { append(definition, to: output) }
        output.append(bigEndian: UInt32(succession.revisions.count))
        for (name, revision) in succession.revisions.sorted(by: { $0.key < $1.key }) {
            append(name, to: output)
            output.append(bigEndian: revision.number)
            output.append(bigEndian: revision.digest)
        }
        output.append(bigEndian: CRC32.checksum(output.view))
        return output.bytes
    }

    private static func append(_ definition: ViewDefinition, to output: ByteWriter) {
        append(definition.designDocument, to: output)
        append(definition.view, to: output)
        append(definition.map, to: output)
        output.append(UInt8(definition.indexesTombstones ? 1 : 0))
        switch definition.reduce {
        case nil: output.append(Reduce.none)
        case .count: output.append(Reduce.count)
        case .sum: output.append(Reduce.sum)
        case .stats: output.append(Reduce.stats)
        case .custom(let source):
            output.append(Reduce.custom)
            append(source, to: output)
        }
    }

    private static func append(_ text: String, to output: ByteWriter) {
        let bytes = Array(text.utf8)
        output.append(bigEndian: UInt32(bytes.count))
        output.append(bytes)
    }

    /// Nil if the bytes are not of this format, or damaged.
    package static func decode(_ bytes: ByteView) -> ViewSuccession? {
        guard bytes.count >= 16 else { return nil }
        let content = bytes.slice(0, bytes.count - 4)
        var end = ByteReader(bytes.dropFirst(bytes.count - 4))
        guard end.bigEndian(UInt32.self) == CRC32.checksum(content) else { return nil }
        var reader = ByteReader(content)
        guard reader.bigEndian(UInt32.self) == magic, reader.bigEndian(UInt32.self) == format,
            let count = reader.bigEndian(UInt32.self)
        else { return nil }
        var definitions: [ViewDefinition] = []
        for _ in 0..<count {
            guard let definition = definition(&reader) else { return nil }
            definitions.append(definition)
        }
        guard let revisions = revisions(&reader), reader.isAtEnd else { return nil }
        return ViewSuccession(definitions, revisions: revisions)
    }

    private static func revisions(_ reader: inout ByteReader) -> [String: DocumentRevision]? {
        guard let count = reader.bigEndian(UInt32.self) else { return nil }
        var revisions: [String: DocumentRevision] = [:]
        for _ in 0..<count {
            guard let name = text(&reader), let number = reader.bigEndian(UInt32.self),
                let digest = reader.bigEndian(UInt32.self)
            else { return nil }
            revisions[name] = DocumentRevision(number: number, digest: digest)
        }
        return revisions
    }

    private static func definition(_ reader: inout ByteReader) -> ViewDefinition? {
        guard let designDocument = text(&reader), let view = text(&reader),
            let map = text(&reader), let tombstones = reader.bigEndian(UInt8.self),
            let kind = reader.bigEndian(UInt8.self)
        else { return nil }
        var reduce: ViewDefinition.Reduce?
        switch kind {
        case Reduce.none: reduce = nil
        case Reduce.count: reduce = .count
        case Reduce.sum: reduce = .sum
        case Reduce.stats: reduce = .stats
        case Reduce.custom:
            guard let source = text(&reader) else { return nil }
            reduce = .custom(source)
        default: return nil
        }
        return ViewDefinition(
            designDocument: designDocument,
            view: view,
            map: map,
            reduce: reduce,
            indexesTombstones: tombstones == 1
        )
    }

    private static func text(_ reader: inout ByteReader) -> String? {
        guard let count = reader.bigEndian(UInt32.self), let bytes = reader.bytes(Int(count)) else {
            return nil
        }
        return bytes.text
    }
}
