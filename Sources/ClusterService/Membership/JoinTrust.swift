internal import Credentials
internal import Vocabulary

/// The values that an operator names so that two nodes that do not know each other trust each other.
///
/// - A node of the same machine needs neither value: only processes of this machine use its loopback.
/// - The token proves both sides to each other, and is never sent. The fingerprint proves only the node
///   that is called.
struct JoinTrust: Sendable {
    /// The waiting node's token; empty if none was named.
    var token: String
    /// The called node's fingerprint; nil if none was named.
    var fingerprint: String?
    /// The refusal if the called node is on another machine and has nothing to prove.
    private let missing: JoinRefusal

    /// Of a node that adds another one.
    ///
    /// - Parameters:
    ///   - token: The waiting node's token; empty if none was named.
    ///   - fingerprint: As an operator writes it: with any case, and with or without colons.
    /// - Returns: The trust of the adding node.
    static func adding(token: String, fingerprint: String?) -> JoinTrust {
        // A proof of a text with little randomness, such as a password, would tell that text.
        let isToken = InitToken.isWellFormed(token)
        return JoinTrust(
            isToken ? token : "",
            fingerprint,
            missing: token.isEmpty ? .tokenNeeded : .wrongToken
        )
    }

    /// The trust of a node that requests a member to add it; `fingerprint` as for `adding`.
    static func joining(fingerprint: String?) -> JoinTrust {
        JoinTrust("", fingerprint, missing: .fingerprintNeeded)
    }

    private init(_ token: String, _ fingerprint: String?, missing: JoinRefusal) {
        self.token = token
        self.missing = missing
        let digits = fingerprint?.lowercased().filter { $0 != ":" && $0 != " " } ?? ""
        self.fingerprint = digits.isEmpty ? nil : digits
    }

    /// Why the called node is not trusted with anything; nil if it is, or is to prove its token.
    func refusal(of met: Stranger) -> JoinRefusal? {
        if let fingerprint {
            let found = NodeKeys.fingerprint(of: met.key)
            return found == fingerprint ? nil : .wrongFingerprint(found)
        }
        return met.isLocal || !token.isEmpty ? nil : missing
    }

    /// The proof that the adding node has the token; empty if none was named.
    func proof(adding: [UInt8], waiting: [UInt8]) -> [UInt8] {
        token.isEmpty
            ? [] : TokenProof.make(token, by: .adding, adding: adding, waiting: waiting)
    }

    /// Whether the waiting node has proved enough.
    func accepts(_ proof: [UInt8], of met: Stranger, adding: [UInt8]) -> Bool {
        if fingerprint != nil || met.isLocal { return true }
        let right = TokenProof.make(token, by: .waiting, adding: adding, waiting: met.key)
        return areEqualInConstantTime(proof, right)
    }
}

/// The token is shown nowhere.
extension JoinTrust: CustomReflectable {
    var customMirror: Mirror { Mirror(self, children: ["fingerprint": fingerprint ?? "none"]) }
}
