internal import Bytes

/// Decodes the content of a JSON string, byte by byte, without allocation: to compare strings that
/// are written differently.
///
/// A lone surrogate decodes to the three bytes that UTF-8 would have for it, so that two of them are
/// equal only if they are the same.
struct StringContent {
    private let content: ByteView
    /// Whether a single backtick is no part of the string, and a doubled one is one backtick.
    private let dropsBackticks: Bool
    private var offset = 0
    /// The rest of a decoded escape, the next byte lowest.
    private var pending: UInt32 = 0
    private var pendingCount = 0

    enum Step: Equatable {
        case byte(UInt8)
        case end
        /// The next escape is invalid.
        case invalid
    }

    init(_ content: ByteView, dropsBackticks: Bool) {
        self.content = content
        self.dropsBackticks = dropsBackticks
    }

    /// Whether two contents are the same string; nil if an escape that was compared is invalid.
    static func areEqual(_ one: StringContent, _ other: StringContent) -> Bool? {
        var (one, other) = (one, other)
        while true {
            let (left, right) = (one.next(), other.next())
            if left == .invalid || right == .invalid { return nil }
            if left != right { return false }
            if left == .end { return true }
        }
    }

    /// Whether a backslash and this byte are a whole escape: not `\u`.
    static func isShortEscape(_ byte: UInt8) -> Bool { decoded(byte) != nil }

    private static func decoded(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): byte
        case UInt8(ascii: "b"): 0x08
        case UInt8(ascii: "f"): 0x0c
        case UInt8(ascii: "n"): 0x0a
        case UInt8(ascii: "r"): 0x0d
        case UInt8(ascii: "t"): 0x09
        default: nil
        }
    }

    mutating func next() -> Step {
        if pendingCount > 0 {
            let byte = UInt8(truncatingIfNeeded: pending)
            pending >>= 8
            pendingCount -= 1
            return .byte(byte)
        }
        guard offset < content.count else { return .end }
        let byte = content[offset]
        offset += 1
        if byte == UInt8(ascii: "\\") { return escaped() }
        guard dropsBackticks, byte == UInt8(ascii: "`") else { return .byte(byte) }
        guard offset < content.count, content[offset] == byte else { return next() }
        offset += 1
        return .byte(byte)
    }

    /// After a backslash.
    private mutating func escaped() -> Step {
        guard offset < content.count else { return .invalid }
        let byte = content[offset]
        offset += 1
        if byte != UInt8(ascii: "u") {
            return StringContent.decoded(byte).map { .byte($0) } ?? .invalid
        }
        guard let unit = unit(at: offset) else { return .invalid }
        offset += 4
        var scalar = unit
        if unit & 0xfc00 == 0xd800, content.count - offset >= 6,
            content[offset] == UInt8(ascii: "\\"), content[offset + 1] == byte,
            let second = self.unit(at: offset + 2), second & 0xfc00 == 0xdc00
        {
            scalar = 0x10000 + (unit & 0x3ff) << 10 + second & 0x3ff
            offset += 6
        }
        encode(scalar)
        return next()
    }

    /// The UTF-16 unit of four hexadecimal digits; nil if they are none.
    private func unit(at place: Int) -> UInt32? {
        guard content.count - place >= 4 else { return nil }
        var unit: UInt32 = 0
        for digit in place..<place + 4 {
            let byte = content[digit]
            let lower = byte | 0x20
            if byte &- UInt8(ascii: "0") < 10 {
                unit = unit << 4 | UInt32(byte - UInt8(ascii: "0"))
            } else if lower &- UInt8(ascii: "a") < 6 {
                unit = unit << 4 | UInt32(lower - UInt8(ascii: "a") + 10)
            } else {
                return nil
            }
        }
        return unit
    }

    private mutating func encode(_ scalar: UInt32) {
        func tail(_ shift: UInt32) -> UInt32 { 0x80 | scalar >> shift & 0x3f }
        switch scalar {
        case ..<0x80: (pending, pendingCount) = (scalar, 1)
        case ..<0x800:
            (pending, pendingCount) = (0xc0 | scalar >> 6 | tail(0) << 8, 2)
        case ..<0x10000:
            (pending, pendingCount) = (0xe0 | scalar >> 12 | tail(6) << 8 | tail(0) << 16, 3)
        default:
            pending = 0xf0 | scalar >> 18 | tail(12) << 8 | tail(6) << 16 | tail(0) << 24
            pendingCount = 4
        }
    }
}
