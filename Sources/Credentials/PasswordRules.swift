package import Vocabulary

/// How new passwords are stored, which mechanisms are offered, and how unknown names are answered.
///
/// All nodes of a cluster have the same rules, so that an unknown name has the same salt on each of
/// them and after a restart, like a user.
package struct PasswordRules: Equatable, Sendable {
    /// Rounds of PBKDF2: the work of a client per connection, and of an attacker per guess.
    ///
    /// 60 000 rounds take a client 20 to 60 ms, little compared to the 2.5 s after which clients
    /// time out. A client that keeps its keys derives them once.
    package static let iterationsDefault = 60_000
    /// The least rounds of RFC 5802; for what is no secret, and for tests.
    package static let iterationsMin = 4_096

    /// Rounds for new passwords and for unknown names.
    package var iterations: Int
    /// Whether SCRAM-SHA1 is offered, and new passwords have keys for it.
    package var offersSHA1: Bool
    /// Keys of unknown names are derived from it.
    package let decoySecret: [UInt8]
    /// Whether a client on another machine may send its password without TLS.
    package var allowsPlainWithoutTLS = true
    /// Whether the plain ports serve only clients that connect over loopback.
    package var hidesPlainPorts = false
    /// How certificates of clients name users, who then need no password.
    package var certificates = ClientCertificateSettings()

    package init(
        decoySecret: [UInt8],
        iterations: Int = iterationsDefault,
        offersSHA1: Bool = false
    ) {
        self.decoySecret = decoySecret
        self.iterations = iterations
        self.offersSHA1 = offersSHA1
    }

    /// The mechanisms that are offered, strongest first.
    package var mechanisms: [SCRAMMechanism] {
        SCRAMMechanism.allCases.filter { $0 != .sha1 || offersSHA1 }
    }
}
