import Bytes
import TestWorld
import Vocabulary
import Wire

/// The resume token of the HTTP feed of changes, and the messages between the nodes that serve it: any
/// bytes decode or are refused, and what is decoded keeps its meaning when it is encoded again.
enum FeedTarget {
    /// Bytes of the longest text that is a token.
    private static let tokenBytesMax = 16_384

    /// The first byte chooses what the rest is: a token's text, a token's bytes without the checksum,
    /// or a message of one of the two sides.
    static func run(_ view: ByteView) {
        guard view.count > 1 else { return }
        let rest = view.dropFirst(1)
        switch view[0] & 3 {
        case 0: check(rest.text)
        case 1: check(text(of: rest))
        case 2: rewrite(HTTPFeedRequest.self, rest)
        default: rewrite(ChangesMessage.self, rest)
        }
    }

    // MARK: Tokens

    /// The fuzzer cannot compute a checksum, so the target does.
    private static func text(of content: ByteView) -> String {
        let writer = ByteWriter()
        writer.append(content)
        writer.append(bigEndian: CRC32C.checksum(content))
        let letters = Base64.encode(writer.view).compactMap { letter -> UInt8? in
            switch letter {
            case UInt8(ascii: "+"): UInt8(ascii: "-")
            case UInt8(ascii: "/"): UInt8(ascii: "_")
            case UInt8(ascii: "="): nil
            default: letter
            }
        }
        return String(decoding: letters, as: UTF8.self)
    }

    private static func check(_ text: String) {
        guard let token = ChangesToken(text: text) else { return }
        let written = token.text
        require(written.utf8.count <= tokenBytesMax, "a token of \(written.utf8.count) bytes")
        guard let again = ChangesToken(text: written) else {
            fatalError("the text of a token is not a token: \(written)")
        }
        require(again.bucket == token.bucket, "a token keeps its bucket")
        require(again.positions.count == token.positions.count, "a token keeps its vBuckets")
        for (old, new) in zip(token.positions, again.positions) { check(old, new) }
        require(again.text == written, "a token that was written once is written in the same way")
    }

    /// A token that is written again may have shorter checks, and describes only what a consumer has.
    private static func check(_ old: ChangesPosition, _ new: ChangesPosition) {
        require(new.seqno == old.seqno, "\(new.seqno) was \(old.seqno)")
        require(new.isInSnapshot == old.isInSnapshot, "the snapshot around \(old.seqno) is lost")
        if old.isInSnapshot {
            require(
                new.snapshotStart == old.snapshotStart && new.snapshotEnd == old.snapshotEnd,
                "the snapshot around \(old.seqno) has changed"
            )
        }
        switch (old.branch, new.branch) {
        case (.none, .none): break
        case (.check(let before), .check(let after)):
            require(
                before.shortened(to: after.width) == after,
                "a check of \(after.width) bits is no part of one of \(before.width) bits"
            )
        default: fatalError("the history of seqno \(old.seqno) has changed")
        }
    }

    // MARK: Messages

    /// Another encoding of a number is no other record, so the first writing may differ from the view.
    private static func rewrite<Record: ChangesRecord>(_ type: Record.Type, _ view: ByteView) {
        let (written, again) = (ByteWriter(), ByteWriter())
        try? type.forEach(in: view) { $1.append($0, to: written) }
        do throws(CodingFailure) {
            try type.forEach(in: written.view) { $1.append($0, to: again) }
        } catch {
            fatalError("records that were decoded encode to others: \(error)")
        }
        require(again.view.equals(written.view), "a record decodes to itself")
    }
}
