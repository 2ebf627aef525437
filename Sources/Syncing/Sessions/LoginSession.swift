package import Bytes
package import SyncWire

/// A user's session: what the cookie `SyncGatewaySession` names.
///
/// Times are in seconds since the Unix epoch.
///
/// - A session is valid for the password with which it was created.
/// - A one-time session is deleted by its first use; the deletion decides which of two uses counts.
package struct LoginSession: Hashable, Sendable, ExtensibleFields {
    package static let cookieName = "SyncGatewaySession"
    package static let defaultSeconds: UInt64 = 24 * 3_600
    package static let oneTimeSeconds: UInt64 = 5 * 60
    /// 160 bits, as in Sync Gateway.
    package static let randomByteCount = 20

    package private(set) var id = ""
    package private(set) var user = ""
    package private(set) var expires: UInt64 = 0
    /// The life of the session after each renewal.
    package private(set) var seconds: UInt64 = 0
    package private(set) var isOneTime = false
    /// `Principal.passwordStamp` when the session was created.
    package private(set) var passwordStamp: UInt64 = 0

    package init() {}

    /// - Throws: `CodingFailure` if the bytes end, or a field is invalid.
    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&id, "id")
        try coder.field(&user, "user")
        try coder.field(&expires, "expiry")
        try coder.field(&seconds, "life")
        try coder.field(&isOneTime, "whether for one use")
        try coder.field(&passwordStamp, "stamp of the password")
    }

    /// A new session of an enabled user.
    ///
    /// - Parameters:
    ///   - user: The user.
    ///   - random: `randomByteCount` random bytes.
    ///   - now: The time.
    ///   - seconds: The life of the session; not more than 2^32.
    ///   - isOneTime: Whether the first use ends it.
    /// - Throws: `Refusal` 400 if the life is no positive number, or the user is disabled.
    package init(
        of user: Principal,
        random: [UInt8],
        now: UInt64,
        seconds: Int = Int(LoginSession.defaultSeconds),
        isOneTime: Bool = false
    ) throws(Refusal) {
        precondition(random.count == Self.randomByteCount, "a session has 160 random bits")
        guard (1...Int(UInt32.max)).contains(seconds) else {
            throw Refusal(400, "Invalid or missing ttl")
        }
        guard !user.isDisabled else { throw Refusal(400, "User is disabled") }
        id = Self.hexadecimal(random)
        self.user = user.key.name
        self.seconds = UInt64(seconds)
        expires = now + self.seconds
        self.isOneTime = isOneTime
        passwordStamp = user.passwordStamp
    }

    package enum Check: Hashable, Sendable {
        /// The request is the user's.
        case valid
        /// As `valid`; store the session, and send its cookie again.
        case renewed(LoginSession)
        /// Delete the session; if it was there, the request is the user's.
        case validOnce
        /// The session is over: delete it.
        case ended
        /// The user is disabled: the session counts again once the user is enabled.
        case disabled
    }

    /// Decides a request with this session.
    ///
    /// The session is renewed if more than a tenth of its life has elapsed, not with each request.
    ///
    /// - Parameters:
    ///   - owner: The stored user of the session's name; nil if there is none.
    ///   - now: The time.
    /// - Returns: Whether the request is the user's, and what to store.
    package func check(_ owner: Principal?, now: UInt64) -> Check {
        guard let owner, now < expires, owner.passwordStamp == passwordStamp else { return .ended }
        if owner.isDisabled { return .disabled }
        if isOneTime { return .validOnce }
        let elapsed = seconds - min(expires - now, seconds)
        guard elapsed > seconds / 10 else { return .valid }
        var renewed = self
        renewed.expires = now + seconds
        return .renewed(renewed)
    }

    private static func hexadecimal(_ bytes: [UInt8]) -> String {
        let digits = Array("0123456789abcdef".utf8)
        let text = bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
        return String(decoding: text, as: UTF8.self)
    }
}
