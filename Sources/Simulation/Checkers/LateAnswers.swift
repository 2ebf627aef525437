package import Bytes
package import Vocabulary
internal import Wire

/// The mutation tokens of responses in transit to a client.
///
/// - Every response with extras of a token's size is counted, as in `DivanClient`: a list of
///   commands with tokens would miss new commands.
/// - A map that a node pushes has similar extras, but is not a response.
package enum LateAnswers {
    package struct Token: Hashable, Sendable {
        package let uuid: VBucketUUID
        package let seqno: Seqno

        package init(uuid: VBucketUUID, seqno: Seqno) {
            self.uuid = uuid
            self.seqno = seqno
        }
    }

    private static let tokenCount = 16

    /// The tokens of all responses in `bytes`, which begin at a frame.
    package static func tokens(_ bytes: ByteView) -> [Token] {
        let decoder = FrameDecoder()
        var tokens: [Token] = []
        var rest = bytes
        while case .frame(let frame) = decoder.next(in: rest) {
            rest = rest.dropFirst(frame.byteCount)
            guard frame.header.magic == .response || frame.header.magic == .flexResponse,
                frame.header.status == .success, frame.extras.count == tokenCount
            else { continue }
            tokens.append(
                Token(
                    uuid: VBucketUUID(frame.extras.bigEndian(at: 0, as: UInt64.self)),
                    seqno: Seqno(frame.extras.bigEndian(at: 8, as: UInt64.self))
                )
            )
        }
        return tokens
    }
}
