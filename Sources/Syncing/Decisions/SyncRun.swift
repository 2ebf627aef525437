package import JSON
internal import SyncWire

/// The record of one run of a sync function: its calls in order, and how it ended.
///
/// The harness only records. It runs the function without knowledge of the user, so that one run of a
/// batch needs no round trip for each claim, and the process that runs JavaScript knows no user. The
/// host decides the claims (`SyncDecision`).
///
/// - Arguments are JSON; `undefined` is null.
package struct SyncRun: Equatable, Sendable {
    package enum Call: Equatable, Sendable {
        /// `channel(...)` with all arguments.
        case channel([JSONValue])
        case access(users: JSONValue, channels: JSONValue)
        case role(users: JSONValue, roles: JSONValue)
        case expiry(JSONValue)
        case reject(status: JSONValue, reason: JSONValue)
        case claim(Claim)
    }

    /// A requirement on the user at this point of the run.
    package enum Claim: Equatable, Sendable {
        /// The user has one of the names.
        case user(JSONValue)
        /// The user has one of the roles.
        case role(JSONValue)
        /// The user has one of the channels.
        case access(JSONValue)
        case administrator
    }

    package enum End: Equatable, Sendable {
        case returned
        /// `throw({forbidden: reason})`.
        case forbidden(String)
        /// `throw({unauthorized: reason})`.
        case unauthorized(String)
        /// Any other exception, or a limit of the harness; the text is for the log.
        case failed(String)
    }

    package let calls: [Call]
    package let end: End

    package init(_ calls: [Call], end: End = .returned) {
        self.calls = calls
        self.end = end
    }

    /// The run of the function that a database without one has: `channel(doc.channels)`.
    ///
    /// It refuses a document with an invalid name, which is an exception of a function in JavaScript.
    package static func withoutFunction(channels: JSONValue?) -> SyncRun {
        let value = channels ?? .null
        if let name = CollectedNames.texts(value).first(where: { ChannelName($0) == nil }) {
            let refusal = RequestRefusal.badChannel(name)
            let status = JSONValue.integer(refusal.status)
            return SyncRun([.reject(status: status, reason: .string(refusal.reason))])
        }
        return SyncRun([.channel([value])])
    }
}
