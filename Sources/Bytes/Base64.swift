/// Base64 with padding (RFC 4648, section 4), used by SASL, HTTP and range scans.
package enum Base64 {
    private static let alphabet = Array(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".utf8
    )

    package static func encode(_ view: ByteView) -> [UInt8] {
        var text: [UInt8] = []
        text.reserveCapacity((view.count + 2) / 3 * 4)
        for start in stride(from: 0, to: view.count, by: 3) {
            let count = min(3, view.count - start)
            var bits: UInt32 = 0
            for index in 0..<3 {
                bits = bits << 8 | (index < count ? UInt32(view[start + index]) : 0)
            }
            for index in 0..<4 {
                let digit = alphabet[Int(bits >> UInt32(18 - 6 * index) & 63)]
                text.append(index <= count ? digit : UInt8(ascii: "="))
            }
        }
        return text
    }

    /// The decoded bytes; nil if `text` is not a result of `encode`.
    package static func decode(_ text: ByteView) -> [UInt8]? {
        guard text.count % 4 == 0 else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count / 4 * 3)
        for start in stride(from: 0, to: text.count, by: 4) {
            let isLast = start + 4 == text.count
            var padding = 0
            if isLast, text[start + 3] == UInt8(ascii: "=") {
                padding = text[start + 2] == UInt8(ascii: "=") ? 2 : 1
            }
            var bits: UInt32 = 0
            for index in 0..<4 {
                guard index < 4 - padding else {
                    bits <<= 6
                    continue
                }
                guard let digit = value(of: text[start + index]) else { return nil }
                bits = bits << 6 | digit
            }
            // Bits that the padding cuts off must be zero, so that no two texts mean the same
            // bytes.
            guard bits & (1 << UInt32(8 * padding) - 1) == 0 else { return nil }
            for index in 0..<3 - padding {
                bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(16 - 8 * index)))
            }
        }
        return bytes
    }

    private static func value(of digit: UInt8) -> UInt32? {
        switch digit {
        case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(digit - UInt8(ascii: "A"))
        case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(digit - UInt8(ascii: "a") + 26)
        case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(digit - UInt8(ascii: "0") + 52)
        case UInt8(ascii: "+"): 62
        case UInt8(ascii: "/"): 63
        default: nil
        }
    }
}
