package import Bytes

/// The name of a channel: any text without a comma, and not empty.
///
/// Two names are equal if their bytes are; Unicode's equality of composed and decomposed letters does not
/// count, as for keys of documents.
package struct ChannelName: Hashable, Sendable {
    /// Every principal has this channel, so a document in it is for every user.
    package static let everyone = ChannelName(bytes: [UInt8(ascii: "!")])
    /// A principal with this channel gets every document.
    ///
    /// A document that a sync function puts in it is in no other channel, so that only principals with
    /// this channel get the document.
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

extension ChannelName: Coded {
    package func write(to writer: inout FieldWriter) { bytes.write(to: &writer) }

    /// - Throws: `CodingFailure` if the bytes end, or are no name of a channel.
    package init(from reader: inout FieldReader) throws(CodingFailure) {
        bytes = try [UInt8](from: &reader)
        guard !bytes.isEmpty, !bytes.contains(UInt8(ascii: ",")) else {
            throw reader.failure(.invalid)
        }
    }
}
