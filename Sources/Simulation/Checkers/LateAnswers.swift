package import Bytes
package import Vocabulary
internal import Wire

/// What answers on their way to a client say was written.
///
/// - Whatever has the extras of a token is one, as for `DivanClient`: a list of the commands that
///   give tokens would be blind to those that are missing in it.
/// - A map that a node sends unasked has a number and extras like a write's, and is no answer.
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

    /// The tokens of all answers in `bytes`, which begin with a frame.
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
