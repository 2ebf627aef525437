package import Bytes
internal import JSON
internal import Persistence
package import Seams
internal import Vocabulary

/// Every document of a data directory as a line of JSON, for operators, tools and tests.
///
/// Reads only the files, even while a server has them open; changes that are not persisted yet are
/// missing.
package struct DataDump {
    private let disk: any Disk

    package init(disk: any Disk) {
        self.disk = disk
    }

    /// Writes all live documents of all buckets.
    ///
    /// - Parameters:
    ///   - directory: The data directory.
    ///   - damage: Called with a sentence for each unreadable part; the rest is written anyway.
    ///   - note: Called with a sentence about data other than documents.
    ///   - write: Called with each line, including its newline.
    /// - Throws: `NodeError` if the directory has no bucket or its files cannot be opened.
    package func lines(
        of directory: String,
        damage: (String) -> Void,
        note: (String) -> Void,
        write: (ByteView) -> Void
    ) throws(NodeError) {
        do throws(StorageError) {
            let dump = Dump(disk: disk)
            let buckets = try dump.buckets(in: directory + "/buckets")
            guard !buckets.isEmpty else {
                throw StorageError(
                    .missing,
                    "There is no bucket in the data directory \(directory)"
                )
            }
            for path in buckets {
                let name = String(path.split(separator: "/").last ?? "")
                let line = ByteWriter(capacity: 64 << 10)
                let prepares = try dump.prepareCount(of: path)
                if prepares > 0 {
                    note(
                        "bucket \(name) has \(prepares) prepared writes that are neither "
                            + "committed nor aborted; the dump omits them"
                    )
                }
                try dump.documents(
                    of: path,
                    damage: { damage($0.description) },
                    visit: { id, meta, key, value in
                        line.removeAll(keepingAtMost: 1 << 20)
                        var json = JSONWriter(line)
                        DataDump.append(name, id, meta: meta, key: key, value: value, to: &json)
                        line.append(UInt8(ascii: "\n"))
                        write(line.view)
                        return true
                    }
                )
            }
        } catch {
            throw NodeError(error.description)
        }
    }

    /// Appends a document without its extended attributes: JSON unchanged as `value`, any other
    /// value in Base64 as `base64`.
    private static func append(
        _ bucket: String,
        _ id: VBucketID,
        meta: DocumentMeta,
        key: ByteView,
        value: ByteView,
        to json: inout JSONWriter
    ) {
        json.object { json in
            json.member("bucket", bucket)
            // With replacement characters, a key that is not UTF-8 could equal another key.
            if let text = String(validating: key.buffer, as: UTF8.self) {
                json.member("key", text)
            } else {
                json.member("keyBase64", String(decoding: Base64.encode(key), as: UTF8.self))
            }
            json.member("vbucket", id.number)
            json.member("seqno", meta.seqno.value)
            json.member("cas", String(meta.cas.value))
            json.member("revision", meta.revision)
            if meta.flags != 0 { json.member("flags", meta.flags) }
            if meta.expiry != 0 { json.member("expiry", meta.expiry) }
            let value = XattrBlob.body(of: value, meta.datatype)
            // JSON may contain line ends, which would split the line; such documents are in Base64.
            let isOneLine = !value.buffer.contains { $0 == 0x0a || $0 == 0x0d }
            // Earlier releases stored the datatype that a client declared.
            if meta.datatype.contains(.json), isOneLine, JSONGrammar.accepts(value) {
                json.member("value", raw: value)
            } else {
                json.member("base64", String(decoding: Base64.encode(value), as: UTF8.self))
            }
        }
    }
}
