package import Bytes

/// Writes the answer of `_all_docs` row by row, in the order of Sync Gateway's members.
package struct AllDocumentsWriter {
    /// A row of a document that the user may see.
    package struct Row: Equatable, Sendable {
        package let id: String
        package let revision: String
        /// Nil if channels were not asked for.
        package var channels: [String]?
        /// The grants of the document as JSON, an object; nil if there are none or they were not asked for.
        package var access: [UInt8]?
        /// The document as JSON; nil if it was not asked for.
        package var document: [UInt8]?
        /// Nil if sequences were not asked for.
        package var sequence: UInt64?

        package init(id: String, revision: String) {
            self.id = id
            self.revision = revision
        }
    }

    private let output: ByteWriter
    private var rowCount = 0

    package init(_ output: ByteWriter) {
        self.output = output
        output.append("{\"rows\":[\n")
    }

    package mutating func append(_ row: Row) {
        beginRow(key: row.id)
        output.append(",\"id\":")
        CanonicalJSON.append(string: row.id, to: output)
        output.append(",\"value\":{\"rev\":")
        CanonicalJSON.append(string: row.revision, to: output)
        if let channels = row.channels, !channels.isEmpty {
            output.append(",\"channels\":")
            CanonicalJSON.append(strings: channels, to: output)
        }
        if let access = row.access {
            output.append(",\"access\":")
            output.append(access)
        }
        output.append("}")
        if let document = row.document {
            output.append(",\"doc\":")
            output.append(document)
        }
        if let sequence = row.sequence { output.append(text: ",\"update_seq\":\(sequence)") }
        output.append("}\n")
    }

    /// Appends the row of a requested id without a document that the user may see.
    package mutating func append(missing id: String, status: Int) {
        beginRow(key: id)
        output.append(",\"error\":")
        CanonicalJSON.append(string: ErrorAnswer.rowName(ofStatus: status), to: output)
        output.append(text: ",\"status\":\(status)}\n")
    }

    /// Appends the end; `total_rows` is the number of rows.
    package func end(updateSequence: UInt64) {
        output.append(text: "],\n\"total_rows\":\(rowCount),\"update_seq\":\(updateSequence)}")
    }

    private mutating func beginRow(key: String) {
        if rowCount > 0 { output.append(",") }
        rowCount += 1
        output.append("{\"key\":")
        CanonicalJSON.append(string: key, to: output)
    }
}
