package import Bytes
internal import JSON
package import Vocabulary

/// Writes the JSON answer to a view query, row by row.
///
///     {"debug_info":{...},"total_rows":2,"rows":[
///     {"id":"a","key":1,"value":null},
///     {"id":"b","key":2,"value":null}
///     ],
///     "errors":[
///     {"from":"...","reason":"..."}
///     ]
///     }
///
/// Lines end in CR LF. The order of the members is Couchbase's, since clients that read the answer as
/// a stream rely on it: `debug_info` before the rows and errors after them.
///
/// - The text is valid JSON when `finish` was called: values are copied, because the index has only
///   valid ones.
/// - An ID that is not UTF-8 has no rows, since such documents are not indexed. Should one come, its
///   ill-formed bytes are repaired.
package struct ViewReply {
    private let output: ByteWriter
    private let scratch = ByteWriter()
    private var rowCount = 0

    package init(_ output: ByteWriter) { self.output = output }

    /// The document that `include_docs` adds to a row.
    package enum IncludedDocument {
        /// Nothing: documents were not requested.
        case none
        /// The document was deleted after its row was read.
        case missing
        /// Both are JSON texts. The body is a string in base64 if the member `type` of `meta` says so.
        case found(meta: ByteView, body: ByteView)
    }

    /// The vBucket and node that `debug=true` adds to a row.
    package struct RowOrigin {
        package let vBucket: VBucketID
        package let node: String

        package init(vBucket: VBucketID, node: String) {
            self.vBucket = vBucket
            self.node = node
        }
    }

    // MARK: Writing

    /// Writes the beginning.
    ///
    /// - Parameters:
    ///   - totalRows: the rows of the index; nil for a reduction, whose answer has no such member.
    ///   - debugInfo: a JSON object; nil without `debug=true`.
    package func start(totalRows: UInt64?, debugInfo: ByteView? = nil) {
        output.append("{")
        if let debugInfo {
            output.append("\"debug_info\":")
            output.append(debugInfo)
            output.append(",")
        }
        if let totalRows {
            output.append("\"total_rows\":")
            output.append(text: String(totalRows))
            output.append(",")
        }
        output.append("\"rows\":[")
    }

    /// Writes a row of a map function; false, with nothing written, if the row key is malformed.
    package mutating func appendRow(
        _ row: RowBatch.Row,
        document: IncludedDocument = .none,
        origin: RowOrigin? = nil
    ) -> Bool {
        scratch.removeAll()
        guard let keyLength = Collation.appendJSON(ofSortKey: row.key, to: scratch) else {
            return false
        }
        let keyText = scratch.count
        guard let key = RowKey(row.key, sortKeyLength: keyLength), key.appendID(to: scratch) else {
            return false
        }
        separate()
        output.append("{\"id\":")
        appendString(scratch.view.dropFirst(keyText))
        output.append(",\"key\":")
        output.append(scratch.view.slice(0, keyText))
        if let origin {
            output.append(",\"partition\":")
            output.append(text: String(origin.vBucket.number))
            output.append(",\"node\":")
            appendString(origin.node)
        }
        output.append(",\"value\":")
        output.append(row.value)
        switch document {
        case .none: break
        case .missing: output.append(",\"doc\":null")
        case .found(let meta, let body):
            let isBase64 = JSONParts.member("type", of: meta)?.text == "\"base64\""
            output.append(",\"doc\":{\"meta\":")
            output.append(meta)
            output.append(isBase64 ? ",\"base64\":" : ",\"json\":")
            output.append(body)
            output.append("}")
        }
        output.append("}")
        return true
    }

    /// Writes a row of a reduce function; false, with nothing written, if the group is malformed.
    ///
    /// `group` is the sort key of the group's key; empty for the one group of all rows, whose key
    /// is null.
    package mutating func appendReduction(group: ByteView, value: ByteView) -> Bool {
        scratch.removeAll()
        if group.isEmpty {
            scratch.append("null")
        } else if Collation.appendJSON(ofSortKey: group, to: scratch) != group.count {
            return false
        }
        separate()
        output.append("{\"key\":")
        output.append(scratch.view)
        output.append(",\"value\":")
        output.append(value)
        output.append("}")
        return true
    }

    /// Writes the end, with what the answer lacks.
    package func finish(errors: [(from: String, reason: String)] = []) {
        output.append("\r\n]")
        if !errors.isEmpty {
            output.append(",\r\n\"errors\":[")
            for (index, error) in errors.enumerated() {
                output.append(index == 0 ? "\r\n" : ",\r\n")
                var writer = JSONWriter(output)
                writer.object { object in
                    object.member("from", error.from)
                    object.member("reason", error.reason)
                }
            }
            output.append("\r\n]")
        }
        output.append("\r\n}\n")
    }

    // MARK: Implementation

    private mutating func separate() {
        output.append(rowCount == 0 ? "\r\n" : ",\r\n")
        rowCount += 1
    }

    private func appendString(_ utf8: ByteView) {
        var writer = JSONWriter(output)
        writer.value(utf8: utf8)
    }

    private func appendString(_ text: String) {
        var writer = JSONWriter(output)
        writer.value(text)
    }
}
