internal import Bytes
internal import Orchestration

/// The console's login sessions by random token; an unused session expires.
///
/// - A session ends with its realm: when the password changes or the user is deleted.
/// - Bounded: a new session replaces the least recently used one.
final class Sessions: Sendable {
    private struct Session {
        let identity: Identity
        let realm: Realm
        var usedMilliseconds: UInt64

        func isExpired(at now: UInt64) -> Bool { now >= usedMilliseconds + idleMillisecondsMax }
    }

    /// As long as users leave a page open and still expect it to work.
    private static let idleMillisecondsMax: UInt64 = 30 * 60 * 1_000
    /// More than users of one cluster at the same time.
    private static let sessionsMax = 1_000

    private let sessions = Guarded<[String: Session]>([:])

    func begin(
        _ token: String,
        of identity: Identity,
        in state: ClusterState,
        nowMilliseconds now: UInt64
    ) {
        sessions.withLock { sessions in
            sessions = sessions.filter { !$0.value.isExpired(at: now) }
            if sessions.count >= Self.sessionsMax,
                let oldest = sessions.min(by: {
                    $0.value.usedMilliseconds < $1.value.usedMilliseconds
                })
            {
                sessions[oldest.key] = nil
            }
            sessions[token] = Session(
                identity: identity,
                realm: Realm(of: identity, in: state),
                usedMilliseconds: now
            )
        }
    }

    /// The identity of a valid session, whose expiry this use extends; nil if there is none.
    func identity(
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

    func end(_ token: String) {
        sessions.withLock { $0[token] = nil }
    }
}
