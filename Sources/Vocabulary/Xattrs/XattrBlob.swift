package import Bytes

/// The extended attributes of a stored value, and the body behind them.
///
/// A value whose datatype has `.xattr` begins with the total length of its pairs (32 bits, big
/// endian). Then follows each pair: its length (32 bits, big endian), the key, NUL, the value, NUL.
/// The body is the rest. Memory, disk, node streams and DCP have this form unchanged, so a view of
/// the bytes is all that a reader needs.
///
/// - Keys have 1 to `Limits.xattrKeyBytesMax` bytes, contain no NUL, and are distinct.
/// - Keys that begin with `_` are system attributes: they survive the deletion of their document.
package struct XattrBlob: Sequence {
    /// The pairs, without the total length in front of them.
    package let pairs: ByteView
    /// The value without its attributes.
    package let body: ByteView

    /// The attributes of a value of the store, whose form was checked when it was stored.
    package init(stored value: ByteView) {
        let total = Int(value.bigEndian(at: 0, as: UInt32.self))
        pairs = value.slice(4, total)
        body = value.dropFirst(4 + total)
    }

    /// The attributes of a value that a client or another cluster sent; nil if the form is invalid.
    ///
    /// Whether the attributes' values are JSON is not checked.
    package init?(_ value: ByteView) {
        var reader = ByteReader(value)
        guard let total = reader.bigEndian(UInt32.self), let pairs = reader.bytes(Int(total)),
            XattrBlob.areValid(pairs)
        else { return nil }
        self.pairs = pairs
        body = reader.rest
    }

    /// A stored value without its attributes; `value` itself if `datatype` says that it has none.
    package static func body(of value: ByteView, _ datatype: Datatype) -> ByteView {
        datatype.contains(.xattr) ? XattrBlob(stored: value).body : value
    }

    /// Whether there is no pair.
    package var isEmpty: Bool { pairs.isEmpty }

    /// The length of the attributes within the stored value, with the total length in front.
    package var byteCount: Int { 4 + pairs.count }

    /// Iterates over the pairs in their stored order.
    package func makeIterator() -> Iterator { Iterator(reader: ByteReader(pairs)) }

    package struct Iterator: IteratorProtocol {
        fileprivate var reader: ByteReader

        package mutating func next() -> (key: ByteView, value: ByteView)? {
            XattrBlob.nextPair(&reader)
        }
    }

    /// The value of one attribute; nil if there is no such key.
    package func value(of key: ByteView) -> ByteView? {
        first { $0.key.equals(key) }?.value
    }

    /// Whether a key is a system attribute's.
    package static func isSystemKey(_ key: ByteView) -> Bool {
        !key.isEmpty && key[0] == UInt8(ascii: "_")
    }

    /// Whether there is a system attribute.
    package var hasSystemKeys: Bool { systemBytes > 0 }

    /// The bytes of the system attributes' pairs, with their lengths: bounded by
    /// `Limits.systemXattrBytesMax`.
    package var systemBytes: Int {
        reduce(0) { bytes, pair in
            guard XattrBlob.isSystemKey(pair.key) else { return bytes }
            return bytes + XattrWriter.pairBytes(pair.key.count, pair.value.count)
        }
    }

    /// Whether body and attributes are within their bounds: the number of attributes, the system
    /// attributes, and all the rest.
    package var isWithinLimits: Bool {
        var (count, system) = (0, 0)
        for pair in self {
            count += 1
            guard count <= Limits.xattrCountMax else { return false }
            guard XattrBlob.isSystemKey(pair.key) else { continue }
            system += XattrWriter.pairBytes(pair.key.count, pair.value.count)
        }
        return system <= Limits.systemXattrBytesMax
            && body.count + pairs.count - system <= Limits.valueBytesMax
    }

    /// Whether a value that a client sent has more pairs than a document may have: a check of their
    /// lengths alone, which bounds the work of `init?(_:)`.
    ///
    /// - Returns: False if the form is invalid within as many pairs as a document may have.
    package static func hasTooManyPairs(_ value: ByteView) -> Bool {
        var reader = ByteReader(value)
        guard let total = reader.bigEndian(UInt32.self), let pairs = reader.bytes(Int(total)) else {
            return false
        }
        var rest = ByteReader(pairs)
        for _ in 0..<Limits.xattrCountMax {
            guard let count = rest.bigEndian(UInt32.self), rest.bytes(Int(count)) != nil else {
                return false
            }
        }
        return !rest.isAtEnd
    }

    /// Whether a stored value is within its bounds.
    package static func isWithinLimits(_ value: ByteView, _ datatype: Datatype) -> Bool {
        guard datatype.contains(.xattr) else { return value.count <= Limits.valueBytesMax }
        return XattrBlob(stored: value).isWithinLimits
    }

    // MARK: Parsing

    /// The next pair of valid pairs; nil at the end.
    fileprivate static func nextPair(_ reader: inout ByteReader) -> (
        key: ByteView, value: ByteView
    )? {
        guard let count = reader.bigEndian(UInt32.self) else { return nil }
        guard let pair = reader.bytes(Int(count)), let keyCount = keyCount(of: pair) else {
            preconditionFailure("the pairs of a stored value are valid")
        }
        return (pair.slice(0, keyCount), pair.slice(keyCount + 1, pair.count - keyCount - 2))
    }

    /// The bytes before the first NUL of a pair that ends with another NUL; nil if the key is empty
    /// or too long, or a NUL is missing.
    private static func keyCount(of pair: ByteView) -> Int? {
        guard pair.count >= 3, pair[pair.count - 1] == 0 else { return nil }
        let longest = Swift.min(Limits.xattrKeyBytesMax, pair.count - 2)
        return (1...longest).first { pair[$0] == 0 }.flatMap { pair[0] == 0 ? nil : $0 }
    }

    private static func areValid(_ pairs: ByteView) -> Bool {
        // A key fits into 16 bytes, and has no NUL, so its padded bytes identify it.
        var keys: Set<SIMD2<UInt64>> = []
        var reader = ByteReader(pairs)
        while !reader.isAtEnd {
            guard let count = reader.bigEndian(UInt32.self), let pair = reader.bytes(Int(count)),
                let keyCount = keyCount(of: pair)
            else { return false }
            let value = pair.slice(keyCount + 1, pair.count - keyCount - 2)
            guard !value.buffer.contains(0) else { return false }
            var padded = SIMD2<UInt64>.zero
            withUnsafeMutableBytes(of: &padded) {
                $0.copyMemory(from: pair.slice(0, keyCount).buffer)
            }
            guard keys.insert(padded).inserted else { return false }
        }
        return true
    }
}
