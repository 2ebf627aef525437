internal import Bytes

/// A client's first message: `n,,n=<user>,r=<nonce>`.
struct SCRAMClientFirst {
    /// The message up to the second comma, inclusive: `c=` must repeat it.
    let header: [UInt8]
    /// The message after `header`, which both sides sign.
    let bare: [UInt8]
    let user: String
    let nonce: [UInt8]

    /// Enough for any client, and bounds the memory that a client without log-in can occupy.
    private static let nonceBytesMax = 1_024

    init?(_ message: ByteView) {
        let comma = UInt8(ascii: ",")
        let parts = message.bytes.split(separator: comma, omittingEmptySubsequences: false)
        // `y`: the client supports channel binding and believes that the server does not, which is
        // true. `p`: the client requires it. A mandatory extension (`m=`) is in the place of `n=`,
        // and fails there.
        guard parts.count >= 4, [[UInt8(ascii: "n")], [UInt8(ascii: "y")]].contains(parts[0]),
            let name = parts[2].attribute("n"), let user = SCRAMName.decode(name),
            let nonce = parts[3].attribute("r"),
            !nonce.isEmpty, nonce.count <= SCRAMClientFirst.nonceBytesMax
        else { return nil }
        // Acting for another user is not supported; a client may name its own user.
        if !parts[1].isEmpty {
            guard let other = parts[1].attribute("a"), SCRAMName.decode(other) == user else {
                return nil
            }
        }
        let headerCount = parts[0].count + parts[1].count + 2
        header = message.slice(0, headerCount).bytes
        bare = message.dropFirst(headerCount).bytes
        self.user = user
        self.nonce = Array(nonce)
    }
}

/// A client's last message: `c=<header>,r=<nonce>,p=<proof>`.
struct SCRAMClientFinal {
    let binding: [UInt8]
    let nonce: [UInt8]
    let proof: [UInt8]
    let withoutProof: [UInt8]

    init?(_ message: ByteView) {
        let comma = UInt8(ascii: ",")
        let parts = message.bytes.split(separator: comma, omittingEmptySubsequences: false)
        guard parts.count >= 3, let binding = parts[0].attribute("c"),
            let nonce = parts[1].attribute("r"), let last = parts.last,
            let proof = last.attribute("p"),
            let decoded = Array(proof).withUnsafeBytes({ Base64.decode(ByteView($0)) })
        else { return nil }
        self.binding = Array(binding)
        self.nonce = Array(nonce)
        self.proof = decoded
        withoutProof = message.slice(0, message.count - last.count - 1).bytes
    }
}

/// User names in SCRAM, where a comma is written `=2C` and an equals sign `=3D`.
enum SCRAMName {
    /// The decoded name; nil if it has another escape, is empty, or is not valid UTF-8.
    static func decode(_ text: ArraySlice<UInt8>) -> String? {
        var name: [UInt8] = []
        var rest = text
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "=") else {
                name.append(byte)
                continue
            }
            switch Array(rest.prefix(2)) {
            case Array("2C".utf8): name.append(UInt8(ascii: ","))
            case Array("3D".utf8): name.append(UInt8(ascii: "="))
            default: return nil
            }
            rest = rest.dropFirst(2)
        }
        guard !name.isEmpty else { return nil }
        return String(validating: name, as: UTF8.self)
    }

    static func encode(_ name: String) -> [UInt8] {
        name.utf8.flatMap { byte in
            switch byte {
            case UInt8(ascii: ","): Array("=2C".utf8)
            case UInt8(ascii: "="): Array("=3D".utf8)
            default: [byte]
            }
        }
    }
}

extension ArraySlice<UInt8> {
    /// The value of `<letter>=<value>`; nil if this is not that attribute.
    func attribute(_ letter: Unicode.Scalar) -> ArraySlice<UInt8>? {
        guard starts(with: [UInt8(ascii: letter), UInt8(ascii: "=")]) else { return nil }
        return dropFirst(2)
    }
}
