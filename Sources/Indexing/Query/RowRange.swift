package import Bytes

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
            lower =
                end.map { key in
                    selection.includesEnd
                        ? RowRange.bound(before: key, id: endID)
                        : RowRange.bound(after: key, id: endID)
                } ?? []
            upper = start.map { RowRange.bound(after: $0, id: startID) }
        } else {
            lower = start.map { RowRange.bound(before: $0, id: startID) } ?? []
            upper = end.map { key in
                selection.includesEnd
                    ? RowRange.bound(after: key, id: endID)
                    : RowRange.bound(before: key, id: endID)
            }
        }
    }

    // MARK: Bounds

    /// The bound before all rows of a key; with an ID, before the rows of this document and of those
    /// with greater IDs.
    private static func bound(before key: [UInt8], id: [UInt8]?) -> [UInt8] {
        key + (id.map(escaped) ?? [])
    }

    /// The bound after all rows of a key; with an ID, after the rows of this document and of those
    /// with smaller IDs.
    private static func bound(after key: [UInt8], id: [UInt8]?) -> [UInt8] {
        // FF FF FF is above the two bytes behind the ID.
        if let id { return key + escaped(id) + [0x00, 0xff, 0xff, 0xff] }
        var bound = key
        // Not the key and FF: an ID can begin with FF.
        while let last = bound.popLast() {
            if last < 0xff { return bound + [last + 1] }
        }
        preconditionFailure("a sort key begins with a tag, which is below FF")
    }

    private static func escaped(_ id: [UInt8]) -> [UInt8] {
        var bytes: [UInt8] = []
        for byte in id {
            if byte <= 1 { bytes += [0x01, byte + 1] } else { bytes.append(byte) }
        }
        return bytes
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
