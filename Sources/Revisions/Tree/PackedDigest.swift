internal import Bytes
internal import SyncWire

/// The digest of a revision as a tree stores it.
///
/// Nearly all digests are lowercase hexadecimal text, which has one byte here for two digits. The
/// text is restored exactly, so that a digest of any author survives.
struct PackedDigest: Equatable {
    /// Whether `bytes` are pairs of hexadecimal digits, and not the text itself.
    let isHexadecimal: Bool
    /// 1 to `RevisionID.bytesMax` bytes.
    let bytes: [UInt8]

    init(isHexadecimal: Bool, bytes: [UInt8]) {
        self.isHexadecimal = isHexadecimal
        self.bytes = bytes
    }

    init(_ text: [UInt8]) {
        let pairs = PackedDigest.pairs(text)
        isHexadecimal = pairs != nil
        bytes = pairs ?? text
    }

    var text: [UInt8] {
        guard isHexadecimal else { return bytes }
        let digits = Array("0123456789abcdef".utf8)
        return bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
    }

    /// One byte for two digits; nil if `text` is not lowercase hexadecimal of even length.
    private static func pairs(_ text: [UInt8]) -> [UInt8]? {
        guard text.count % 2 == 0 else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count / 2)
        for index in stride(from: 0, to: text.count, by: 2) {
            guard let high = value(text[index]), let low = value(text[index + 1]) else {
                return nil
            }
            bytes.append(high << 4 | low)
        }
        return bytes
    }

    private static func value(_ digit: UInt8) -> UInt8? {
        switch digit {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit - UInt8(ascii: "a") + 10
        default: nil
        }
    }
}
