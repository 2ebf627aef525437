internal import Bytes

/// A client's password, with the keys that were derived from it (RFC 5802, section 3).
///
/// Deriving takes milliseconds, on purpose, and gives the same for the same salt: all nodes of a
/// cluster keep the same one, so a client derives at its first connection, and not again at each
/// node, nor when it comes back to all of them after a failover (RFC 5802, section 5.1 advises so).
///
/// - May be used from any thread.
package final class SCRAMPassword: Sendable {
    struct Keys: Sendable {
        let client: [UInt8]
        let server: [UInt8]
    }

    private struct Derived {
        let mechanism: SCRAMMechanism
        let salt: [UInt8]
        let iterations: Int
        let keys: Keys
    }

    /// A password that is changed under way has two salts; more than a few are a server's game.
    private static let derivedMax = 4

    private let password: [UInt8]
    private let derived = Guarded<[Derived]>([])

    package init(_ password: String) { self.password = Array(password.utf8) }

    /// The keys for what a server asked for.
    func keys(_ mechanism: SCRAMMechanism, salt: [UInt8], iterations: Int) -> Keys {
        let known = derived.withLock { derived in
            derived.first {
                $0.mechanism == mechanism && $0.salt == salt && $0.iterations == iterations
            }
        }
        if let known { return known.keys }
        let salted = mechanism.saltedPassword(password, salt: salt, iterations: iterations)
        let keys = Keys(
            client: mechanism.hmac(salted, Array("Client Key".utf8)),
            server: mechanism.hmac(salted, Array("Server Key".utf8))
        )
        derived.withLock { derived in
            if derived.count == SCRAMPassword.derivedMax { derived.removeFirst() }
            derived.append(
                Derived(mechanism: mechanism, salt: salt, iterations: iterations, keys: keys)
            )
        }
        return keys
    }

    /// For how many salts keys are kept.
    package var derivedCount: Int { derived.withLock { $0.count } }
}
