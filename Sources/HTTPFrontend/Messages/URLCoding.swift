/// Percent-encoding and forms; malformed escapes are left unchanged.
///
/// Fields are bytes; the reader of a field checks whether they are UTF-8.
enum URLCoding {
    /// The bytes of a path segment or form field.
    static func decode(_ text: some Sequence<UInt8>, plusIsSpace: Bool = false) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.underestimatedCount)
        var rest = text.makeIterator()
        while let byte = rest.next() {
            switch byte {
            case UInt8(ascii: "+") where plusIsSpace:
                bytes.append(UInt8(ascii: " "))
            case UInt8(ascii: "%"):
                var ahead = rest
                if let high = ahead.next().flatMap(digit), let low = ahead.next().flatMap(digit) {
                    bytes.append(high << 4 | low)
                    rest = ahead
                } else {
                    bytes.append(byte)
                }
            default:
                bytes.append(byte)
            }
        }
        return bytes
    }

    /// The fields of a query string, or of a body of type `application/x-www-form-urlencoded`.
    static func fields(_ text: some Collection<UInt8>) -> FormFields {
        let pairs = text.split(separator: UInt8(ascii: "&")).map { pair in
            let parts = pair.split(
                separator: UInt8(ascii: "="),
                maxSplits: 1,
                omittingEmptySubsequences: false
            )
            let value = parts.count == 2 ? decode(parts[1], plusIsSpace: true) : []
            return (name: decode(parts[0], plusIsSpace: true), value: value)
        }
        return FormFields(pairs: pairs)
    }

    /// Encodes all but letters, digits and `-._~`.
    static func encode(_ bytes: some Sequence<UInt8>) -> String {
        let digits = Array("0123456789ABCDEF".unicodeScalars)
        var text = String.UnicodeScalarView()
        for byte in bytes {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."),
                UInt8(ascii: "_"), UInt8(ascii: "~"):
                text.append(Unicode.Scalar(byte))
            default:
                text.append("%")
                text.append(digits[Int(byte >> 4)])
                text.append(digits[Int(byte & 15)])
            }
        }
        return String(text)
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
