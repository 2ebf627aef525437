import Bytes
import Seams

/// Frames of a 4-byte length and a payload, and a handler's step that echoes complete frames.
enum Frames {
    static func frame(_ payload: [UInt8]) -> [UInt8] {
        withUnsafeBytes(of: UInt32(payload.count).bigEndian) { Array($0) } + payload
    }

    /// A reply with the number of received bytes only.
    static func short(_ count: Int) -> [UInt8] {
        withUnsafeBytes(of: UInt32(count).bigEndian) { Array($0) }
    }

    static func echo(_ input: ByteView, _ output: ByteWriter) -> ReceiveProgress {
        var consumed = 0
        while input.count - consumed >= 4 {
            let rest = input.dropFirst(consumed)
            let length = 4 + Int(rest.bigEndian(at: 0, as: UInt32.self))
            guard rest.count >= length else {
                return ReceiveProgress(consumed: consumed, next: .receive, needed: length)
            }
            output.append(rest.slice(0, length))
            consumed += length
            if output.count >= 256 << 10 && consumed < input.count {
                return ReceiveProgress(consumed: consumed, next: .drain)
            }
        }
        return ReceiveProgress(consumed: consumed, next: .receive)
    }
}
