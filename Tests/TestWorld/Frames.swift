/// Builds a request byte by byte, so that a test can say anything, wrong things too.
package func frame(
    _ opcode: UInt8,
    key: [UInt8] = [],
    value: [UInt8] = [],
    extras: [UInt8] = [],
    vBucket: UInt16 = 0,
    opaque: UInt32 = 0,
    cas: UInt64 = 0,
    datatype: UInt8 = 0,
    framing: [UInt8]? = nil
) -> [UInt8] {
    var bytes: [UInt8] = [framing == nil ? 0x80 : 0x08, opcode]
    if let framing {
        bytes += [UInt8(framing.count), UInt8(key.count)]
    } else {
        bytes += big(UInt16(key.count))
    }
    bytes += [UInt8(extras.count), datatype]
    bytes += big(vBucket)
    bytes += big(UInt32((framing ?? []).count + extras.count + key.count + value.count))
    bytes += big(opaque)
    bytes += big(cas)
    return bytes + (framing ?? []) + extras + key + value
}

/// The bytes of a number, most significant first.
package func big<Integer: FixedWidthInteger>(_ value: Integer) -> [UInt8] {
    withUnsafeBytes(of: value.bigEndian) { [UInt8]($0) }
}

/// One reply, taken apart.
package struct Reply: Hashable, Sendable {
    package var magic: UInt8
    package var opcode: UInt8
    package var datatype: UInt8
    package var status: UInt16
    package var opaque: UInt32
    package var cas: UInt64
    package var framing: [UInt8]
    package var extras: [UInt8]
    package var key: [UInt8]
    package var value: [UInt8]

    package var text: String { String(decoding: value, as: UTF8.self) }

    /// Whether this is a request of the server, as in a stream of changes.
    ///
    /// The `status` of a request is the number of its vBucket.
    package var isRequest: Bool { magic == 0x80 || magic == 0x82 }

    /// All whole replies at the front of `bytes`, and what is left behind them.
    ///
    /// - Parameters:
    ///   - bytes: What a connection sent.
    ///   - allowsRequests: The connection streams changes, so that it sends requests too.
    /// - Returns: The replies, and the bytes of the last one that is not whole.
    package static func split(
        _ bytes: [UInt8],
        allowsRequests: Bool = false
    ) -> (replies: [Reply], rest: ArraySlice<UInt8>) {
        var replies: [Reply] = []
        var rest = bytes[...]
        while let (reply, count) = first(of: rest) {
            require(allowsRequests || !reply.isRequest, "a reply begins with a reply's magic")
            replies.append(reply)
            rest = rest.dropFirst(count)
        }
        return (replies, rest)
    }

    private static func first(of bytes: ArraySlice<UInt8>) -> (Reply, Int)? {
        guard bytes.count >= 24 else { return nil }
        let header = Array(bytes.prefix(24))
        func number(_ range: Range<Int>) -> UInt64 {
            header[range].reduce(0) { $0 << 8 | UInt64($1) }
        }
        let isFlex = header[0] == 0x18
        require([0x80, 0x81, 0x82].contains(header[0]) || isFlex, "a message begins with a magic")
        let body = Int(number(8..<12))
        guard bytes.count >= 24 + body else { return nil }
        let framing = isFlex ? Int(header[2]) : 0
        let key = isFlex ? Int(header[3]) : Int(number(2..<4))
        let extras = Int(header[4])
        require(framing + extras + key <= body, "a reply's parts lie within its body")
        var parts = Array(bytes.dropFirst(24).prefix(body))[...]
        func take(_ count: Int) -> [UInt8] {
            defer { parts = parts.dropFirst(count) }
            return Array(parts.prefix(count))
        }
        let reply = Reply(
            magic: header[0],
            opcode: header[1],
            datatype: header[5],
            status: UInt16(number(6..<8)),
            opaque: UInt32(number(12..<16)),
            cas: number(16..<24),
            framing: take(framing),
            extras: take(extras),
            key: take(key),
            value: Array(parts)
        )
        return (reply, 24 + body)
    }
}
