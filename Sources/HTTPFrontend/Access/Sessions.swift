internal import Bytes
internal import Orchestration

/// What a session's credentials belong to: one cluster and its administrator's name and password.
///
/// A change of the password or of the cluster makes another realm and so invalidates sessions.
/// Every node reads the realm from its own cluster state, whichever node received the change.
struct Realm: Hashable, Sendable {
    private let cluster: String?
    private let administrator: Administrator?

    init(_ state: ClusterState) {
        cluster = state.uuid
        administrator = state.administrator
    }
}

/// The console's login sessions by random token; an unused session expires.
///
/// - A session ends with its realm.
/// - Bounded: a new session replaces the least recently used one.
final class Sessions: Sendable {
    private struct Session {
        let user: String
        let realm: Realm
        var usedMilliseconds: UInt64

        func isExpired(at now: UInt64) -> Bool { now >= usedMilliseconds + idleMillisecondsMax }
    }

    /// As long as users leave a page open and still expect it to work.
    private static let idleMillisecondsMax: UInt64 = 30 * 60 * 1_000
    /// More than users of one cluster at the same time.
    private static let sessionsMax = 1_000

    private let sessions = Guarded<[String: Session]>([:])

    func begin(_ token: String, user: String, in realm: Realm, nowMilliseconds now: UInt64) {
        sessions.withLock { sessions in
            sessions = sessions.filter { !$0.value.isExpired(at: now) }
            if sessions.count >= Self.sessionsMax,
                let oldest = sessions.min(by: {
                    $0.value.usedMilliseconds < $1.value.usedMilliseconds
                })
            {
                sessions[oldest.key] = nil
            }
            sessions[token] = Session(user: user, realm: realm, usedMilliseconds: now)
        }
    }

    /// The user of a valid session, whose expiry this use extends; nil if there is none.
    func user(of token: String, in realm: Realm, nowMilliseconds now: UInt64) -> String? {
        sessions.withLock { sessions in
            guard let session = sessions[token] else { return nil }
            guard session.realm == realm, !session.isExpired(at: now) else {
                sessions[token] = nil
                return nil
            }
            sessions[token]?.usedMilliseconds = now
            return session.user
        }
    }

    func end(_ token: String) {
        sessions.withLock { $0[token] = nil }
    }
}
