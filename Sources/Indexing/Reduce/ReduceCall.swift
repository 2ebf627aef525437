package import Bytes
package import Vocabulary

/// One call of a custom reduction, to be computed by the caller.
package struct ReduceCall {
    /// A row, or a partial result; for a partial result the key is empty.
    private struct Item {
        let key: Int
        let value: Int
        let end: Int
    }

    /// Whether the values are partial results of the same reduction, in the order of their rows.
    package let isRereduce: Bool
    private var items: [Item] = []
    private let bytes = ByteWriter()
    /// Where the result belongs.
    var target: ReduceTarget

    init(isRereduce: Bool, for target: ReduceTarget) {
        self.isRereduce = isRereduce
        self.target = target
    }

    package var count: Int { items.count }

    /// Bytes of all keys and values.
    package var byteCount: Int { bytes.count }

    /// The row key at a place; valid as long as the call.
    package func key(_ index: Int) -> ByteView {
        bytes.view.slice(items[index].key, items[index].value - items[index].key)
    }

    /// The value, or the partial result, at a place; valid as long as the call.
    package func value(_ index: Int) -> ByteView {
        bytes.view.slice(items[index].value, items[index].end - items[index].value)
    }

    mutating func append(key: ByteView, value: ByteView) {
        let start = bytes.count
        bytes.append(key)
        bytes.append(value)
        items.append(Item(key: start, value: start + key.count, end: bytes.count))
    }

    mutating func append(_ result: [UInt8]) {
        result.withUnsafeBytes { append(key: .empty, value: ByteView($0)) }
    }

    mutating func append(
        _ entry: IndexEntry,
        from source: any NodeSource
    ) throws(IndexError) {
        try source.withValue(entry.value) { append(key: entry.key, value: $0) }
    }
}

/// A result that a custom walk computed, for the table of its parent; valid for this version.
package struct ComputedPartial: Sendable {
    package let parent: IndexNodeID
    package let child: IndexNodeID
    package let version: UInt32
    package let result: [UInt8]

    package init(
        parent: IndexNodeID,
        child: IndexNodeID,
        version: UInt32,
        result: [UInt8]
    ) {
        self.parent = parent
        self.child = child
        self.version = version
        self.result = result
    }
}

/// Where the result of a call belongs: the place in a frame, and the child whose result it is.
struct ReduceTarget {
    let frame: ReduceFrame
    let place: Int
    var child: (parent: IndexNodeID, id: IndexNodeID, version: UInt32)?
}

/// Results that are reduced to one: those of a group, or of the children of a node without a stored
/// result.
final class ReduceFrame {
    /// In the order of keys; nil until they are computed.
    var pieces: [[UInt8]?] = []
    /// Pieces that are not computed yet.
    var pending = 0
    /// Whether all pieces are known, though not computed.
    var isComplete = false
    /// Nil for a group.
    let target: ReduceTarget?
    let prefix: [UInt8]

    init(target: ReduceTarget) {
        self.target = target
        prefix = []
    }

    init(groupPrefix: [UInt8]) {
        target = nil
        prefix = groupPrefix
    }

    func append(_ piece: [UInt8]) { pieces.append(piece) }

    /// A place for a piece that is computed later.
    func appendPending() -> Int {
        pieces.append(nil)
        pending += 1
        return pieces.count - 1
    }

    func set(_ place: Int, _ piece: [UInt8]) {
        precondition(pieces[place] == nil, "a piece is computed once")
        pieces[place] = piece
        pending -= 1
    }

    var isReady: Bool { isComplete && pending == 0 }
}
