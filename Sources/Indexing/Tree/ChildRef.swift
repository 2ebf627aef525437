internal import Vocabulary

/// A child of an inner node, as edits and walks have it in lists.
struct ChildRef {
    let id: IndexNodeID
    var version: UInt32
    var rows: UInt64
    /// The shortest key that divides it from the child before it, in the edit's `separators`.
    var separator = 0
    var separatorCount = 0
    /// The place of its node in the edit's writes; negative if the edit did not write it.
    var place = -1
    /// Bytes of the node that the edit wrote.
    var bytes = 0
    /// Whether the edit made it smaller, so that it may have to be merged.
    var hasShrunk = false

    /// Encodes the payload of its entry.
    var payload: SmallBytes {
        var bytes = SmallBytes()
        bytes.append(id.value)
        bytes.append(UInt64(version))
        bytes.append(rows)
        return bytes
    }
}

extension ChildRef {
    init(_ payload: ChildPayload) {
        self.init(id: payload.id, version: payload.version, rows: payload.rows)
    }
}
