internal import Bytes

extension StoredCredentials {
    /// One line of text for a file: `scram-1`, then for each mechanism with keys its name, rounds,
    /// salt and keys.
    package var text: String {
        let parts = SCRAMMechanism.allCases.compactMap { mechanism -> String? in
            guard let verifier = verifier(for: mechanism) else { return nil }
            let fields = [verifier.salt, verifier.storedKey, verifier.serverKey].map { bytes in
                bytes.withUnsafeBytes { bytes in
                    String(decoding: Base64.encode(ByteView(bytes)), as: UTF8.self)
                }
            }
            return "\(mechanism.rawValue),\(verifier.iterations),"
                + fields.joined(separator: ",")
        }
        return ([StoredCredentials.format] + parts).joined(separator: ";")
    }

    /// Parses such a line; nil if it is damaged or of another format.
    package init?(text: String) {
        let parts = text.split(separator: ";", omittingEmptySubsequences: false)
        guard (3...4).contains(parts.count), parts[0] == StoredCredentials.format,
            let sha512 = Verifier(.sha512, text: parts[1]),
            let sha256 = Verifier(.sha256, text: parts[2])
        else { return nil }
        let sha1 = parts.count == 4 ? Verifier(.sha1, text: parts[3]) : nil
        guard parts.count == 3 || sha1 != nil else { return nil }
        self.init(sha512: sha512, sha256: sha256, sha1: sha1)
    }

    private static let format = "scram-1"
}

extension StoredCredentials.Verifier {
    fileprivate init?(_ mechanism: SCRAMMechanism, text: Substring) {
        let fields = text.split(separator: ",", omittingEmptySubsequences: false)
        guard fields.count == 5, fields[0] == mechanism.rawValue,
            let iterations = Int(fields[1]), (1...1_000_000).contains(iterations)
        else { return nil }
        let bytes = fields[2...].compactMap { field in
            Array(field.utf8).withUnsafeBytes { Base64.decode(ByteView($0)) }
        }
        guard bytes.count == 3, !bytes[0].isEmpty, bytes[1].count == mechanism.byteCount,
            bytes[2].count == mechanism.byteCount
        else { return nil }
        self.init(
            salt: bytes[0],
            iterations: iterations,
            storedKey: bytes[1],
            serverKey: bytes[2]
        )
    }
}
