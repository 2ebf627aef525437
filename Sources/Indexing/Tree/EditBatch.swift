package import Bytes
package import Vocabulary

/// Insertions and removals for a tree, in any order until `sort`; reused for many edits.
///
/// - Of several operations on a key, the last counts.
/// - The keys and values are copied into one buffer: an operation allocates nothing of its own.
package final class EditBatch {
    struct Operation {
        /// The first bytes of the key, so that most comparisons need no others.
        let prefix: UInt64
        let key: Int
        let keyCount: Int
        /// Where the value begins; negative for a removal.
        let value: Int
        let valueCount: Int
        let order: UInt32
        let vBucket: UInt16
    }

    private let bytes = ByteWriter(capacity: 64 << 10)
    private(set) var operations: [Operation] = []
    private var isSorted = true

    package init() {}

    package var count: Int { operations.count }

    /// Bytes of all keys and values.
    package var byteCount: Int { bytes.count }

    package func removeAll() {
        bytes.removeAll(keepingAtMost: 1 << 20)
        operations.removeAll(keepingCapacity: true)
        isSorted = true
    }

    /// Inserts an entry, or replaces the one with this key.
    ///
    /// `vBucket` is stored in the main tree only: a back entry's key begins with it.
    package func put(key: ByteView, vBucket: VBucketID, value: ByteView) {
        append(key, value: bytes.count + key.count, valueCount: value.count, vBucket.number)
        bytes.append(value)
    }

    /// Removes the entry with this key, if there is one.
    package func remove(key: ByteView) {
        append(key, value: -1, valueCount: 0, 0)
    }

    private func append(_ key: ByteView, value: Int, valueCount: Int, _ vBucket: UInt16) {
        precondition(key.count <= NodeFormat.keyBytesMax, "a key of an index is at most 20 KiB")
        let operation = Operation(
            prefix: key.orderPrefix,
            key: bytes.count,
            keyCount: key.count,
            value: value,
            valueCount: valueCount,
            order: UInt32(truncatingIfNeeded: operations.count),
            vBucket: vBucket
        )
        bytes.append(key)
        if isSorted, let last = operations.last, !precedes(last, operation) { isSorted = false }
        operations.append(operation)
    }

    /// Strictly, by key only.
    private func precedes(_ one: Operation, _ other: Operation) -> Bool {
        if one.prefix != other.prefix { return one.prefix < other.prefix }
        return key(one).precedes(key(other))
    }

    func key(_ operation: Operation) -> ByteView {
        ByteView(start: bytes.view.start + operation.key, count: operation.keyCount)
    }

    /// Nil for a removal.
    func value(_ operation: Operation) -> ByteView? {
        operation.value < 0
            ? nil : ByteView(start: bytes.view.start + operation.value, count: operation.valueCount)
    }

    /// Sorts by key, and keeps the last operation on each.
    func sort() {
        guard !isSorted else { return }
        operations.sort { one, other in
            if one.prefix != other.prefix { return one.prefix < other.prefix }
            let keys = (key(one), key(other))
            if keys.0.precedes(keys.1) { return true }
            return keys.0.equals(keys.1) && one.order < other.order
        }
        var kept = 0
        for index in operations.indices {
            let isLast =
                index + 1 == operations.count
                || precedes(operations[index], operations[index + 1])
            if isLast {
                operations[kept] = operations[index]
                kept += 1
            }
        }
        operations.removeSubrange(kept...)
        isSorted = true
    }
}
