package import Bytes

/// The name of a channel: any text without a comma, and not empty.
///
/// Two names are equal if their bytes are; Unicode's equality of composed and decomposed letters does not
/// count, as for keys of documents.
package struct ChannelName: Hashable, Sendable {
    /// Every user has this channel.
    package static let everyone = ChannelName(bytes: [UInt8(ascii: "!")])
    /// A document in this channel is for every user; a user with this channel gets every document.
    package static let all = ChannelName(bytes: [UInt8(ascii: "*")])

    package let bytes: [UInt8]

    private init(bytes: [UInt8]) { self.bytes = bytes }

    /// Nil if `text` is empty or has a comma.
    package init?(_ text: ByteView) {
        guard text.count > 0, !text.buffer.contains(UInt8(ascii: ",")) else { return nil }
        bytes = text.bytes
    }

    package init?(_ text: String) {
        guard let name = text.withView({ ChannelName($0) }) else { return nil }
        self = name
    }
}

extension ChannelName: Comparable {
    package static func < (one: ChannelName, other: ChannelName) -> Bool {
        one.bytes.lexicographicallyPrecedes(other.bytes)
    }
}

extension ChannelName: CustomStringConvertible {
    package var description: String { String(decoding: bytes, as: UTF8.self) }
}
