internal import Bytes

/// A client's password and a cache of the keys derived from it (RFC 5802, section 3).
///
/// Deriving takes milliseconds by design, and yields the same keys for the same salt. All nodes of
/// a cluster use the same salt. So a client derives the keys once, not for each node, nor when it
/// reconnects to all nodes after a failover (as RFC 5802, section 5.1 advises).
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

    /// Entries of the cache.
    ///
    /// While a password is changed there are two salts; a hostile server could send any number of
    /// them.
    private static let derivedMax = 4

    private let password: [UInt8]
    private let derived = Guarded<[Derived]>([])

    package init(_ password: String) { self.password = Array(password.utf8) }

    /// The keys for a server's challenge, from the cache or newly derived.
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

    /// The number of cached keys.
    package var derivedCount: Int { derived.withLock { $0.count } }
}
