package import Bytes
internal import JSON

/// The rows with `lower <= row key < upper`, compared as bytes.
///
/// A row key is the sort key of its key, its document's ID with 00 as 01 01 and 01 as 01 02, 00, and
/// two bytes. No sort key is a proper prefix of another, so all rows of a key begin with its sort
/// key, and no other row does. A bound may be the front of a sort key that is longer than those of rows: no
/// row begins with it.
package struct RowRange: Equatable, Sendable {
    package var lower: [UInt8]
    /// Nil: to the last row.
    package var upper: [UInt8]?

    package init(lower: [UInt8], upper: [UInt8]? = nil) {
        self.lower = lower
        self.upper = upper
    }

    /// All rows.
    package init() { self.init(lower: []) }

    package var isEmpty: Bool {
        upper.map { !lower.lexicographicallyPrecedes($0) } ?? false
    }

    package func contains(_ key: [UInt8]) -> Bool {
        !key.lexicographicallyPrecedes(lower)
            && upper.map { key.lexicographicallyPrecedes($0) } ?? true
    }

    /// The rows of a selection's range.
    package init(_ selection: ViewQuery.RowSelection, isDescending: Bool) {
        let start = selection.startKey
        let end = selection.endKey
        let startID = selection.startDocumentID
        let endID = selection.endDocumentID
        if isDescending {
            lower = end.map { RowRange.bound($0, endID, isAfter: !selection.includesEnd) } ?? []
            upper = start.map { RowRange.bound($0, startID, isAfter: true) }
        } else {
            lower = start.map { RowRange.bound($0, startID, isAfter: false) } ?? []
            upper = end.map { RowRange.bound($0, endID, isAfter: selection.includesEnd) }
        }
    }

    /// The bound before or after all rows of a key; with an ID, before or after the rows of its document.
    private static func bound(_ key: [UInt8], _ id: [UInt8]?, isAfter: Bool) -> [UInt8] {
        let output = ByteWriter()
        key.withUnsafeBytes { key in
            (id ?? []).withUnsafeBytes { bytes in
                let id = id == nil ? nil : ByteView(bytes)
                if isAfter {
                    RowKey.appendBound(after: ByteView(key), id: id, to: output)
                } else {
                    RowKey.appendBound(before: ByteView(key), id: id, to: output)
                }
            }
        }
        return output.bytes
    }
}

extension RowRange: ExtensibleFields {
    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&lower, "lower bound")
        // Bytes follow the flag also if there is no bound.
        var (hasUpper, bound) = (upper != nil, upper ?? [])
        try coder.field(&hasUpper, "upper bound")
        try coder.field(&bound, "upper bound")
        upper = hasUpper ? bound : nil
    }
}
