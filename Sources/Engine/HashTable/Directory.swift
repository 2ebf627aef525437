internal import Bytes

/// Maps the top bits of a hash to a segment; immutable: every change makes a new directory.
///
/// Layout: depth, then 2^depth words, each a segment's address with its own depth in the low six
/// bits (segments begin at cache lines, so those are free).
struct Directory {
    let base: UnsafeMutableRawPointer

    private static let headerBytes = 8

    @inline(__always)
    var depth: UInt64 { base.load(as: UInt64.self) }

    var count: Int { 1 << Int(depth) }

    var bytes: Int { Directory.headerBytes + count * 8 }

    @inline(__always)
    func index(of hash: UInt64) -> Int { Int(hash >> (64 - depth)) }

    @inline(__always)
    private func word(_ index: Int) -> UInt64 {
        base.load(fromByteOffset: Directory.headerBytes + index * 8, as: UInt64.self)
    }

    @inline(__always)
    subscript(index: Int) -> Segment {
        guard let base = UnsafeMutableRawPointer(bitPattern: UInt(word(index) & ~63)) else {
            preconditionFailure("a directory has a segment for every hash")
        }
        return Segment(base: base)
    }

    /// The number of top hash bits that all keys of the segment at `index` share; less than the
    /// directory's depth if several entries point to the segment.
    @inline(__always)
    func depth(at index: Int) -> UInt64 { word(index) & 63 }

    /// The directory after the replacement of a segment.
    ///
    /// - Parameters:
    ///   - before: The previous directory; nil if there was only one segment.
    ///   - old: The replaced segment.
    ///   - segments: Its replacement: one segment, or two halves.
    ///   - depth: The depth of `old`.
    ///   - hash: Any hash that belongs to `old`.
    /// - Returns: A new directory of the smallest sufficient depth.
    static func make(
        from before: Directory?,
        old: Segment,
        _ segments: [Segment],
        depth: UInt64,
        hash: UInt64
    ) -> Directory {
        let segmentDepth = depth + UInt64(segments.count - 1)
        let newDepth = max(before?.depth ?? 0, segmentDepth)
        let count = 1 << Int(newDepth)
        let base = Memory.allocate(headerBytes + count * 8)
        base.storeBytes(of: newDepth, as: UInt64.self)
        for index in 0..<count {
            var entry: UInt64 = UInt64(UInt(bitPattern: old.base)) | depth
            if let before { entry = before.word(index >> Int(newDepth - before.depth)) }
            if entry & ~63 == UInt64(UInt(bitPattern: old.base)) {
                let half =
                    segments.count == 1 ? 0 : index >> Int(newDepth - segmentDepth) & 1
                entry = UInt64(UInt(bitPattern: segments[half].base)) | segmentDepth
            }
            base.storeBytes(of: entry, toByteOffset: headerBytes + index * 8, as: UInt64.self)
        }
        return Directory(base: base)
    }
}
