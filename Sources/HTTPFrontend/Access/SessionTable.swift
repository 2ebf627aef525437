internal import Bytes
package import Orchestration

/// The console's login sessions by random token.
///
/// - A session ends with its realm: when the password changes or the user is deleted. An unused
///   session expires, and every session ends some time after its login.
/// - Bounded: a new session replaces the least recently used one, of the same identity if that has
///   the most that are permitted.
package final class SessionTable: Sendable {
    private struct Session {
        let identity: Identity
        let realm: Realm
        let begunMilliseconds: UInt64
        var usedMilliseconds: UInt64

        func isExpired(at now: UInt64) -> Bool {
            now >= usedMilliseconds + idleMillisecondsMax
                || now >= begunMilliseconds + lifeMillisecondsMax
        }
    }

    /// As long as users leave a page open and still expect it to work.
    private static let idleMillisecondsMax: UInt64 = 30 * 60 * 1_000
    /// A working day: a stolen token is of use no longer, also if it is used all the time.
    private static let lifeMillisecondsMax: UInt64 = 12 * 60 * 60 * 1_000
    /// More browsers than one user has open.
    private static let identitySessionsMax = 20
    /// More than users of one cluster at the same time.
    private static let sessionsMax = 1_000

    private let sessions = Guarded<[String: Session]>([:])

    package init() {}

    package func begin(
        _ token: String,
        of identity: Identity,
        in state: ClusterState,
        nowMilliseconds now: UInt64
    ) {
        sessions.withLock { sessions in
            sessions = sessions.filter { !$0.value.isExpired(at: now) }
            let own = sessions.filter { $0.value.identity == identity }
            if own.count >= Self.identitySessionsMax {
                sessions[Self.leastRecentlyUsed(own)] = nil
            } else if sessions.count >= Self.sessionsMax {
                sessions[Self.leastRecentlyUsed(sessions)] = nil
            }
            sessions[token] = Session(
                identity: identity,
                realm: Realm(of: identity, in: state),
                begunMilliseconds: now,
                usedMilliseconds: now
            )
        }
    }

    /// The token of the session that was not used for the longest time; empty without sessions.
    private static func leastRecentlyUsed(_ sessions: [String: Session]) -> String {
        sessions.min { $0.value.usedMilliseconds < $1.value.usedMilliseconds }?.key ?? ""
    }

    /// The identity of a valid session, whose expiry this use extends; nil if there is none.
    package func identity(
        of token: String,
        in state: ClusterState,
        nowMilliseconds now: UInt64
    ) -> Identity? {
        sessions.withLock { sessions in
            guard let session = sessions[token] else { return nil }
            let realm = Realm(of: session.identity, in: state)
            guard session.realm == realm, !session.isExpired(at: now) else {
                sessions[token] = nil
                return nil
            }
            sessions[token]?.usedMilliseconds = now
            return session.identity
        }
    }

    package func end(_ token: String) {
        sessions.withLock { $0[token] = nil }
    }
}
