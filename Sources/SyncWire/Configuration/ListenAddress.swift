/// Where a listener waits: `HOST:PORT`, or `:PORT` for all addresses of the machine.
package struct ListenAddress: Hashable, Sendable, CustomStringConvertible {
    /// A name or an address, without the brackets of IPv6; empty for all addresses.
    package let host: String
    /// 0 for a free one.
    package let port: UInt16
    /// As written.
    package let description: String

    static let expected = "HOST:PORT or :PORT"
    static let usualPublic = ListenAddress(host: "", port: 4_984)
    static let usualAdministration = ListenAddress(host: "127.0.0.1", port: 4_985)

    private init(host: String, port: UInt16) {
        self.host = host
        self.port = port
        description = "\(host):\(port)"
    }

    /// Nil if the text has another form.
    package init?(_ text: String) {
        guard let colon = text.lastIndex(of: ":"),
            let port = UInt16(text[text.index(after: colon)...])
        else { return nil }
        let name = text[..<colon]
        let isBracketed = name.hasPrefix("[") && name.hasSuffix("]")
        let host = isBracketed ? name.dropFirst().dropLast() : name
        guard isBracketed || !host.contains(":"),
            host.utf8.allSatisfy({ $0 > UInt8(ascii: " ") && $0 < 0x7f && $0 != UInt8(ascii: "/") })
        else { return nil }
        self.host = String(host)
        self.port = port
        description = text
    }
}
