import Bytes

func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

extension Array where Element == UInt8 {
    func withView<Result>(_ body: (ByteView) throws -> Result) rethrows -> Result {
        try withUnsafeBytes { try body(ByteView($0)) }
    }
}
