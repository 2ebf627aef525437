internal import Bytes
package import Vocabulary

/// The resume token of the HTTP feed: a bucket's UUID and a position in each of its vBuckets, as text.
///
/// As bytes, before base64 (RFC 4648, section 5, without padding):
///
/// | what | bytes |
/// | --- | --- |
/// | version, 1 | 1 |
/// | length of the bucket's UUID, its text | 1 + n |
/// | vBuckets (LEB128), bits of a branch check | 1 to 3, 1 |
/// | for each 16 vBuckets: the lowest seqno, as difference from the last group's (zigzag LEB128), and the bits of an offset from it | 2 to 8 |
/// | offsets of the group's seqnos, then its branch checks, as bits | variable |
/// | number of vBuckets inside a snapshot (LEB128); for each its number, the distances of its position from the snapshot's start and end (LEB128) | variable |
/// | CRC-32C of all bytes before it | 4 |
///
/// - 1 024 UUIDs of 64 bits do not fit into 6 KiB of text. A position has a `BranchCheck` instead, as
///   wide as the seqnos leave room for: 24 bits at most, `checkBitsMin` at least.
/// - Neighbouring vBuckets have about the same seqno, because keys are distributed by their hash.
/// - Any text decodes to a token or an error.
package struct ChangesToken: Hashable, Sendable {
    /// Bytes of a token's text, for 1 024 vBuckets of a bucket that is used evenly.
    package static let textBytesMax = 6_144
    /// Bytes of a text that is decoded: seqnos of any values for 1 024 vBuckets are below it.
    static let decodedTextBytesMax = 16_384
    /// vBuckets inside a snapshot that a token describes.
    ///
    /// Each costs up to 16 bytes. Of more, the token has the position before the snapshot.
    package static let snapshotsMax = 32
    static let checkBitsMax = 24
    static let checkBitsMin = 6
    static let groupCount = 16
    private static let version: UInt8 = 1
    private static let seqnoBits = 48

    /// The bucket's UUID.
    package let bucket: String
    /// The positions by vBucket number.
    package let positions: [ChangesPosition]

    /// - Parameters:
    ///   - bucket: The bucket's UUID, of at most 64 bytes.
    ///   - positions: The positions by vBucket number.
    package init(bucket: String, positions: [ChangesPosition]) {
        precondition(bucket.utf8.count <= 64, "the UUID of a bucket is short")
        self.bucket = bucket
        self.positions = positions
    }

    // MARK: Encoding

    /// The token's text: letters, digits, `-` and `_`.
    package var text: String {
        let positions = describedPositions
        let snapshots = ChangesToken.snapshots(of: positions)
        let rest = bucket.utf8.count + 16 + snapshots.count
        let width = checkBits(positions, besides: rest)
        let writer = ByteWriter()
        writer.append(ChangesToken.version)
        writer.append(UInt8(bucket.utf8.count))
        writer.append(text: bucket)
        LEB128.append(UInt64(positions.count), to: writer)
        writer.append(UInt8(width))
        var base: UInt64 = 0
        for group in ChangesToken.groups(of: positions) {
            ChangesToken.append(group, from: &base, checkBits: width, to: writer)
        }
        writer.append(snapshots)
        writer.append(bigEndian: CRC32C.checksum(writer.view))
        return ChangesToken.text(of: writer.view)
    }

    /// The positions, with at most `snapshotsMax` inside a snapshot.
    private var describedPositions: [ChangesPosition] {
        var left = ChangesToken.snapshotsMax
        return positions.map { position in
            guard position.isInSnapshot else { return position }
            left -= 1
            return left >= 0 ? position : position.atSnapshotStart
        }
    }

    private static func groups(of positions: [ChangesPosition]) -> [(VBucketID, [ChangesPosition])]
    {
        stride(from: 0, to: positions.count, by: groupCount).map { start in
            let end = min(start + groupCount, positions.count)
            return (VBucketID(UInt16(start)), Array(positions[start..<end]))
        }
    }

    private static func base(of group: [ChangesPosition]) -> (lowest: UInt64, bits: Int) {
        let seqnos = group.map(\.seqno.value)
        let lowest = seqnos.min() ?? 0
        return (lowest, 64 - ((seqnos.max() ?? 0) - lowest).leadingZeroBitCount)
    }

    /// The width of the branch checks that the seqnos leave room for.
    private func checkBits(_ positions: [ChangesPosition], besides rest: Int) -> Int {
        var used = rest
        var last: UInt64 = 0
        for (_, group) in ChangesToken.groups(of: positions) {
            let (lowest, bits) = ChangesToken.base(of: group)
            let difference = LEB128.zigzag(Int64(lowest) - Int64(last))
            last = lowest
            // Seven bits a byte, the width, and what fills the last byte of offsets and checks.
            used += (70 - (difference | 1).leadingZeroBitCount) / 7 + 2 + group.count * bits / 8
        }
        let room = (ChangesToken.textBytesMax / 4 * 3 - used) * 8 / max(positions.count, 1)
        var width = min(max(room, ChangesToken.checkBitsMin), ChangesToken.checkBitsMax)
        for case .check(let check) in positions.map(\.branch) { width = min(width, check.width) }
        return width
    }

    private static func append(
        _ group: (first: VBucketID, positions: [ChangesPosition]),
        from base: inout UInt64,
        checkBits: Int,
        to writer: ByteWriter
    ) {
        let (lowest, bits) = ChangesToken.base(of: group.positions)
        LEB128.append(LEB128.zigzag(Int64(lowest) - Int64(base)), to: writer)
        base = lowest
        writer.append(UInt8(bits))
        var packed = BitWriter()
        for position in group.positions {
            packed.append(position.seqno.value - lowest, width: bits)
        }
        for (place, position) in group.positions.enumerated() {
            let vBucket = VBucketID(group.first.number + UInt16(place))
            let check: UInt32 =
                switch position.branch {
                case .none, .latest: 0
                case .uuid(let uuid): BranchCheck(of: uuid, vBucket: vBucket).bits
                case .check(let check): check.bits
                }
            packed.append(UInt64(check), width: checkBits)
        }
        packed.finish()
        writer.append(packed.bytes)
    }

    private static func snapshots(of positions: [ChangesPosition]) -> [UInt8] {
        let inside = positions.enumerated().filter { $0.element.isInSnapshot }
        let writer = ByteWriter()
        LEB128.append(UInt64(inside.count), to: writer)
        for (number, position) in inside {
            LEB128.append(UInt64(number), to: writer)
            LEB128.append(position.seqno.value - position.snapshotStart.value, to: writer)
            LEB128.append(position.snapshotEnd.value - position.seqno.value, to: writer)
        }
        return writer.bytes
    }

    private static func text(of view: ByteView) -> String {
        var text = Base64.encode(view)
        while text.last == UInt8(ascii: "=") { text.removeLast() }
        for place in text.indices {
            if text[place] == UInt8(ascii: "+") { text[place] = UInt8(ascii: "-") }
            if text[place] == UInt8(ascii: "/") { text[place] = UInt8(ascii: "_") }
        }
        return String(decoding: text, as: UTF8.self)
    }
}

// MARK: Decoding

extension ChangesToken {
    /// Decodes a token's text; nil if it is not the text of a token.
    package init?(text: String) {
        guard let bytes = ChangesToken.bytes(of: text), bytes.count > 4 else { return nil }
        let decoded: ChangesToken? = bytes.withUnsafeBytes { buffer in
            let view = ByteView(buffer)
            let content = view.slice(0, view.count - 4)
            guard view.bigEndian(at: content.count, as: UInt32.self) == CRC32C.checksum(content)
            else { return nil }
            var reader = ByteReader(content)
            guard let token = ChangesToken(&reader), reader.isAtEnd else { return nil }
            return token
        }
        guard let decoded else { return nil }
        self = decoded
    }

    private static func bytes(of text: String) -> [UInt8]? {
        guard text.utf8.count <= decodedTextBytesMax else { return nil }
        var letters: [UInt8] = []
        letters.reserveCapacity(text.utf8.count + 3)
        for letter in text.utf8 {
            switch letter {
            case UInt8(ascii: "-"): letters.append(UInt8(ascii: "+"))
            case UInt8(ascii: "_"): letters.append(UInt8(ascii: "/"))
            case UInt8(ascii: "+"), UInt8(ascii: "/"), UInt8(ascii: "="): return nil
            default: letters.append(letter)
            }
        }
        while letters.count % 4 != 0 { letters.append(UInt8(ascii: "=")) }
        return letters.withUnsafeBytes { Base64.decode(ByteView($0)) }
    }

    private init?(_ reader: inout ByteReader) {
        guard reader.bigEndian(UInt8.self) == ChangesToken.version,
            let length = reader.bigEndian(UInt8.self), length <= 64,
            let name = reader.bytes(Int(length)),
            let bucket = String(validating: name.bytes, as: UTF8.self),
            let count = reader.leb128(), Limits.vBucketCounts.contains(where: { $0 == count }),
            let width = reader.bigEndian(UInt8.self),
            (1...UInt8(BranchCheck.widthMax)).contains(width)
        else { return nil }
        var positions: [ChangesPosition] = []
        var base: UInt64 = 0
        while positions.count < Int(count) {
            let size = min(ChangesToken.groupCount, Int(count) - positions.count)
            guard
                let group = ChangesToken.group(size, from: &base, checkBits: Int(width), &reader)
            else { return nil }
            positions += group
        }
        guard ChangesToken.readSnapshots(&reader, into: &positions) else { return nil }
        self.init(bucket: bucket, positions: positions)
    }

    private static func group(
        _ size: Int,
        from base: inout UInt64,
        checkBits: Int,
        _ reader: inout ByteReader
    ) -> [ChangesPosition]? {
        guard let difference = reader.leb128(), let bits = reader.bigEndian(UInt8.self),
            bits <= seqnoBits
        else { return nil }
        let (lowest, overflow) = Int64(base).addingReportingOverflow(LEB128.unzigzag(difference))
        guard !overflow, lowest >= 0, UInt64(lowest) >> UInt64(seqnoBits) == 0,
            let packed = reader.bytes((size * (Int(bits) + checkBits) + 7) / 8)
        else { return nil }
        base = UInt64(lowest)
        var unpacked = BitReader(packed)
        var seqnos: [UInt64] = []
        for _ in 0..<size {
            guard let offset = unpacked.read(Int(bits)) else { return nil }
            let seqno = base + offset
            guard seqno >> UInt64(seqnoBits) == 0 else { return nil }
            seqnos.append(seqno)
        }
        var positions: [ChangesPosition] = []
        for seqno in seqnos {
            guard let check = unpacked.read(checkBits) else { return nil }
            // At zero no history is needed.
            let branch: ChangesPosition.Branch =
                seqno == 0
                ? .none
                : .check(BranchCheck(bits: UInt32(truncatingIfNeeded: check), width: checkBits))
            positions.append(ChangesPosition(branch: branch, seqno: Seqno(seqno)))
        }
        return positions
    }

    private static func readSnapshots(
        _ reader: inout ByteReader,
        into positions: inout [ChangesPosition]
    ) -> Bool {
        guard let count = reader.leb128(), count <= snapshotsMax else { return false }
        var next = 0
        for _ in 0..<count {
            guard let number = reader.leb128(), number < positions.count, number >= next,
                let before = reader.leb128(), let after = reader.leb128(), after > 0
            else { return false }
            let place = Int(number)
            next = place + 1
            let seqno = positions[place].seqno.value
            let (end, overflow) = seqno.addingReportingOverflow(after)
            guard before <= seqno, !overflow, end >> UInt64(seqnoBits) == 0 else { return false }
            positions[place].snapshotStart = Seqno(seqno - before)
            positions[place].snapshotEnd = Seqno(end)
        }
        return true
    }
}

/// Appends integers of any number of bits, the lowest bit first.
struct BitWriter {
    private(set) var bytes: [UInt8] = []
    private var pending: UInt64 = 0
    private var pendingBits = 0

    /// Appends the lower `width` bits of a value; the width is at most 48.
    mutating func append(_ value: UInt64, width: Int) {
        guard width > 0 else { return }
        pending |= (value & UInt64.max >> UInt64(64 - width)) << UInt64(pendingBits)
        pendingBits += width
        while pendingBits >= 8 {
            bytes.append(UInt8(truncatingIfNeeded: pending))
            pending >>= 8
            pendingBits -= 8
        }
    }

    /// Fills the last byte with zeros.
    mutating func finish() {
        guard pendingBits > 0 else { return }
        bytes.append(UInt8(truncatingIfNeeded: pending))
        pending = 0
        pendingBits = 0
    }
}

/// Reads what a `BitWriter` appended.
struct BitReader {
    private var reader: ByteReader
    private var pending: UInt64 = 0
    private var pendingBits = 0

    init(_ view: ByteView) {
        reader = ByteReader(view)
    }

    /// The next `width` bits, at most 48; nil if too few are left.
    mutating func read(_ width: Int) -> UInt64? {
        guard width > 0 else { return 0 }
        while pendingBits < width {
            guard let byte = reader.bigEndian(UInt8.self) else { return nil }
            pending |= UInt64(byte) << UInt64(pendingBits)
            pendingBits += 8
        }
        let value = pending & UInt64.max >> UInt64(64 - width)
        pending >>= UInt64(width)
        pendingBits -= width
        return value
    }
}
