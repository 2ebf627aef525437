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

    private let root: String
    private let disk: any Disk
    /// The contents of the files, by the bucket's UUID.
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
        StoredSuccession(succession).append(to: output)
        output.append(bigEndian: CRC32.checksum(output.view))
        return output.bytes
    }

    /// Nil if the bytes are not of this format, or damaged.
    package static func decode(_ bytes: ByteView) -> ViewSuccession? {
        guard bytes.count >= 4 else { return nil }
        let content = bytes.slice(0, bytes.count - 4)
        let checksum = bytes.bigEndian(at: content.count, as: UInt32.self)
        guard checksum == CRC32.checksum(content),
            let stored = try? StoredSuccession(decoding: content)
        else { return nil }
        return stored.succession
    }
}

/// The content of a file.
///
/// The format is older than `Coder`: all counts and lengths have four bytes.
private struct StoredSuccession: CodedFields {
    private static let magic: UInt32 = 0x4456_4445
    private static let format: UInt32 = 1

    private var definitions: [ViewDefinition] = []
    private var revisions: [(name: String, revision: DocumentRevision)] = []

    init() {}

    init(_ succession: ViewSuccession) {
        definitions = succession.complete.values.sorted {
            ($0.designDocument, $0.view) < ($1.designDocument, $1.view)
        }
        revisions = succession.revisions.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }
    }

    var succession: ViewSuccession {
        let revisions = Dictionary(revisions.map { ($0.name, $0.revision) }) { _, last in last }
        return ViewSuccession(definitions, revisions: revisions)
    }

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.constant(StoredSuccession.magic, "magic")
        try coder.constant(StoredSuccession.format, "format")
        let blank = ViewDefinition(designDocument: "", view: "", map: "")
        try coder.elements(&definitions, "definitions", blank: blank) {
            (coder, definition) throws(CodingFailure) in
            try coder.text(&definition.designDocument, "design document")
            try coder.text(&definition.view, "view")
            try coder.text(&definition.map, "map function")
            var mapsTombstones: UInt8 = definition.indexesTombstones ? 1 : 0
            try coder.fixed(&mapsTombstones, "tombstones")
            definition.indexesTombstones = mapsTombstones == 1
            try coder.reduce(&definition.reduce)
        }
        try coder.elements(
            &revisions,
            "revisions",
            blank: ("", DocumentRevision(number: 0, digest: 0))
        ) {
            (coder, entry) throws(CodingFailure) in
            try coder.text(&entry.name, "design document")
            try coder.fixed(&entry.revision.number, "number")
            try coder.fixed(&entry.revision.digest, "digest")
        }
    }
}

extension Coder {
    fileprivate mutating func constant(
        _ value: UInt32,
        _ name: StaticString
    ) throws(CodingFailure) {
        var found = value
        try fixed(&found, name)
        let read = found
        try require(read == value, name)
    }

    fileprivate mutating func elements<Element>(
        _ list: inout [Element],
        _ name: StaticString,
        blank: Element,
        body: (inout Self, inout Element) throws(CodingFailure) -> Void
    ) throws(CodingFailure) {
        var count = UInt32(list.count)
        try fixed(&count, name)
        for index in 0..<Int(count) {
            // One by one: a damaged count must not reserve memory.
            if index == list.count { list.append(blank) }
            try body(&self, &list[index])
        }
    }

    fileprivate mutating func text(
        _ text: inout String,
        _ name: StaticString
    ) throws(CodingFailure) {
        var bytes = Array(text.utf8)
        var count = UInt32(bytes.count)
        try fixed(&count, name)
        try self.bytes(&bytes, count: Int(count), name)
        text = String(decoding: bytes, as: UTF8.self)
    }

    fileprivate mutating func reduce(
        _ reduce: inout ViewDefinition.Reduce?
    ) throws(CodingFailure) {
        let builtin: [ViewDefinition.Reduce?] = [nil, .count, .sum, .stats]
        var kind = UInt8(builtin.firstIndex(of: reduce) ?? builtin.count)
        try fixed(&kind, "reduction")
        let read = Int(kind)
        try require(read <= builtin.count, "reduction")
        guard read == builtin.count else {
            reduce = builtin[read]
            return
        }
        var source = ""
        if case .custom(let text)? = reduce { source = text }
        try text(&source, "reduce function")
        reduce = .custom(source)
    }
}
