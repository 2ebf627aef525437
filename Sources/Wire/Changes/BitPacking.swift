internal import Bytes

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
