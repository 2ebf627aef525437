internal import Bytes
internal import Orchestration

/// Whose password was asked for: the administrator of one cluster, as he was then.
///
/// With another password, or in another cluster, whoever was let in before is a stranger; wherever
/// the change was asked for, every node finds it in its own state.
struct Realm: Hashable, Sendable {
    private let cluster: String?
    private let administrator: Administrator?

    init(_ state: ClusterState) {
        cluster = state.uuid
        administrator = state.administrator
    }
}

/// Who is logged in to the page: random tokens, forgotten when unused for a while.
///
/// - A session ends with its realm.
/// - Bounded: the session that was not used for longest makes room for a new one.
final class Sessions: Sendable {
    private struct Session {
        let user: String
        let realm: Realm
        var usedMilliseconds: UInt64

        func isOver(at now: UInt64) -> Bool { now >= usedMilliseconds + idleMillisecondsMax }
    }

    /// As long as people leave a page open and still expect it to work.
    private static let idleMillisecondsMax: UInt64 = 30 * 60 * 1_000
    /// More people than will ever look at once.
    private static let sessionsMax = 1_000

    private let sessions = Guarded<[String: Session]>([:])

    func begin(_ token: String, user: String, in realm: Realm, nowMilliseconds now: UInt64) {
        sessions.withLock { sessions in
            sessions = sessions.filter { !$0.value.isOver(at: now) }
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

    /// The user of a session that is still good, which this use prolongs.
    func user(of token: String, in realm: Realm, nowMilliseconds now: UInt64) -> String? {
        sessions.withLock { sessions in
            guard let session = sessions[token] else { return nil }
            guard session.realm == realm, !session.isOver(at: now) else {
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
