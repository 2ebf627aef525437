/// The content of an attribute that a simulated client writes: a name of the write, and macros.
///
/// The store expands the macros, so that the CAS names the version that the write made, also in later
/// versions that keep the attribute.
package struct AttributeMark: Hashable, Sendable {
    /// The end of the names of durable writes.
    package static let durableSuffix = ".durable"

    /// Unique in the run.
    package let name: String
    /// The CAS, whose digits are in little-endian byte order.
    package let cas: UInt64
    package let seqno: UInt64
    /// The CRC-32C of the body.
    package let checksum: UInt32

    package var isDurable: Bool { name.hasSuffix(AttributeMark.durableSuffix) }

    /// Parses an attribute; nil if a member is missing or a macro is not expanded.
    package init?(_ text: String) {
        var members: [String: String] = [:]
        let parts = text.split(separator: "\"", omittingEmptySubsequences: false)
        // A text in quotes, a colon, a text in quotes, a comma.
        for index in stride(from: 1, to: parts.count - 2, by: 4) {
            members[String(parts[index])] = String(parts[index + 2])
        }
        guard let name = members["name"],
            let cas = AttributeMark.number(members["cas"], digits: 16), cas != 0,
            let seqno = AttributeMark.number(members["seqno"], digits: 16), seqno != 0,
            let checksum = AttributeMark.number(members["crc"], digits: 8)
        else { return nil }
        self.name = name
        self.cas = cas.byteSwapped
        self.seqno = seqno
        self.checksum = UInt32(checksum)
    }

    private static func number(_ text: String?, digits: Int) -> UInt64? {
        guard let text, text.hasPrefix("0x"), text.utf8.count == digits + 2 else { return nil }
        return UInt64(text.dropFirst(2), radix: 16)
    }
}
