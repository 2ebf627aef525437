internal import Bytes
internal import Seams
internal import Wire

/// A server that answers without storing anything.
///
/// Every GET returns the same value, every other request success. The throughput against it is the
/// limit of what the driver can measure.
final class ConstantReplies: ConnectionHandler {
    private let decoder = FrameDecoder()
    /// A whole answer to a GET, opaque 0.
    private let hit: [UInt8]

    init(valueBytes: Int) {
        let writer = ByteWriter()
        let value = [UInt8](repeating: UInt8(ascii: "x"), count: valueBytes)
        value.withUnsafeBytes { value in
            [UInt8](repeating: 0, count: 4).withUnsafeBytes { flags in
                ResponseEncoder.append(
                    .success,
                    to: writer,
                    replyTo: ReplyTo(.get, opaque: 0),
                    extras: ByteView(flags),
                    value: ByteView(value)
                )
            }
        }
        hit = writer.bytes
    }

    func receive(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        var offset = 0
        while true {
            switch decoder.next(in: input.dropFirst(offset)) {
            case .incomplete(let needed):
                return ReceiveProgress(consumed: offset, next: .receive, needed: needed)
            case .valueTooBig, .invalid: return ReceiveProgress(consumed: offset, next: .close)
            case .frame(let frame):
                offset += frame.byteCount
                if frame.header.opcodeByte == Opcode.get.rawValue {
                    let start = output.count
                    output.append(hit)
                    output.replace(at: start + 12, bigEndian: frame.opaque)
                } else {
                    ResponseEncoder.append(.success, to: output, replyTo: frame.replyTo)
                }
                if output.count > 256 << 10 {
                    return ReceiveProgress(consumed: offset, next: .drain)
                }
            }
        }
    }

    func wake(_ input: ByteView, output: ByteWriter) -> ReceiveProgress {
        receive(input, output: output)
    }

    func closed() {}
}
