internal import Bytes
internal import Seams
internal import Vocabulary

/// `bucket.divan`: the small file that names the current generation of a bucket's files.
///
/// Each line is a word and its values; the last line is a checksum over the lines before. The file
/// is replaced atomically, so a flush is one rename, and any other generation in the directory is
/// left over from a crash.
struct BucketFile: Hashable {
    static let name = "bucket.divan"
    private static let version = 1

    var uuid: String
    var generation: UInt64
    var lanes: Int
    var vBuckets: Int
    /// The lanes that have a file.
    ///
    /// If the file of a listed lane is missing, its data is lost; a lane that is not listed is
    /// empty.
    var files: Set<Int> = []

    var text: String {
        let files = files.sorted().map { " \($0)" }.joined()
        let body = """
            divan-bucket \(BucketFile.version)
            uuid \(uuid)
            generation \(generation)
            lanes \(lanes)
            vbuckets \(vBuckets)
            files\(files)

            """
        return body + "checksum \(BucketFile.checksum(body))\n"
    }

    private static func checksum(_ text: String) -> UInt32 {
        text.withView { CRC32.checksum($0) }
    }

    static func directory(of generation: UInt64) -> String { "generation-\(generation)" }

    func path(of lane: Int, in directory: String) -> String {
        let number = lane < 10 ? "0\(lane)" : "\(lane)"
        return "\(directory)/\(BucketFile.directory(of: generation))/lane-\(number).sqlite"
    }

    static func read(_ disk: any Disk, _ directory: String) throws(StorageError) -> BucketFile? {
        let path = "\(directory)/\(name)"
        guard let bytes = try storage({ () throws(DiskError) in try disk.read(path) }) else {
            return nil
        }
        return try BucketFile(text: String(decoding: bytes, as: UTF8.self), path: path)
    }

    func write(_ disk: any Disk, _ directory: String) throws(StorageError) {
        try storage { () throws(DiskError) in
            try disk.replace("\(directory)/\(BucketFile.name)", with: Array(text.utf8))
        }
    }
}

extension BucketFile {
    fileprivate init(text: String, path: String) throws(StorageError) {
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
            .map { $0.split(separator: " ") }
        var words: [Substring: [Substring]] = [:]
        for line in lines {
            if let word = line.first { words[word] = Array(line.dropFirst()) }
        }
        func number(_ word: Substring) -> UInt64? {
            words[word].flatMap { $0.count == 1 ? UInt64($0[0]) : nil }
        }
        guard let version = number("divan-bucket") else {
            throw StorageError(.damaged, "\(path) is not a bucket file")
        }
        guard version == BucketFile.version else {
            throw StorageError(
                .otherFormat,
                Release.refusal(
                    of: path,
                    format: Int(clamping: version),
                    expected: BucketFile.version
                )
            )
        }
        guard let end = text.range(of: "checksum "),
            number("checksum") == UInt64(BucketFile.checksum(String(text[..<end]))),
            let uuid = words["uuid"]?.first, let generation = number("generation"),
            let lanes = number("lanes"), let vBuckets = number("vbuckets"),
            1...64 ~= lanes, 1...65_536 ~= vBuckets
        else { throw StorageError(.damaged, "\(path) is damaged: invalid checksum or field") }
        self.uuid = String(uuid)
        self.generation = generation
        self.lanes = Int(lanes)
        self.vBuckets = Int(vBuckets)
        files = Set((words["files"] ?? []).compactMap { Int($0) })
    }
}

extension String {
    /// The start of the first occurrence of `text`; nil if there is none. (Foundation's version is
    /// not used below the facades.)
    fileprivate func range(of text: String) -> String.Index? {
        var index = startIndex
        while index < endIndex {
            if self[index...].hasPrefix(text) { return index }
            index = self.index(after: index)
        }
        return nil
    }
}

extension LaneIdentity {
    init(name: String, file: BucketFile, lane: Int) {
        self.init(
            bucket: name,
            bucketUUID: file.uuid,
            generation: file.generation,
            lane: lane,
            lanes: file.lanes,
            vBuckets: file.vBuckets
        )
    }
}
