internal import Orchestration

/// Percent-encoding and forms, strict about nothing: what cannot be decoded stays as it is.
enum URLCoding {
    /// The bytes of a path segment or form field.
    static func decode(_ text: some StringProtocol, plusIsSpace: Bool = false) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.utf8.count)
        var rest = text.utf8.makeIterator()
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

    static func decodedText(_ text: some StringProtocol, plusIsSpace: Bool = false) -> String {
        String(decoding: decode(text, plusIsSpace: plusIsSpace), as: UTF8.self)
    }

    /// A query string, or a body of type `application/x-www-form-urlencoded`.
    static func form(_ text: some StringProtocol) -> FormParameters {
        let pairs = text.split(separator: "&").map { pair in
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let value = parts.count == 2 ? decodedText(parts[1], plusIsSpace: true) : ""
            return (name: decodedText(parts[0], plusIsSpace: true), value: value)
        }
        return FormParameters(pairs)
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
