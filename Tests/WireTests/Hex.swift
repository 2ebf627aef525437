import Bytes
import Wire

/// The bytes of hexadecimal digits; all other characters are ignored.
func hex(_ text: String) -> [UInt8] {
    let digits = text.utf8.compactMap { byte in
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        default: nil
        }
    }
    return stride(from: 0, to: digits.count - 1, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}

extension Array where Element == UInt8 {
    func withView<Result>(_ body: (ByteView) throws -> Result) rethrows -> Result {
        try withUnsafeBytes { try body(ByteView($0)) }
    }
}

/// Writes with `body` and returns what was written.
func written(_ body: (ByteWriter) -> Void) -> [UInt8] {
    let writer = ByteWriter()
    body(writer)
    return writer.bytes
}
