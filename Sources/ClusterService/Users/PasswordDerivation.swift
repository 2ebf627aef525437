internal import Bytes
internal import Credentials
internal import Seams

/// Derives the stored keys of new passwords on a thread of its own.
///
/// That takes some hundred milliseconds on purpose. On an event loop it would stall the loop's
/// connections, and on the control lane the cluster's log.
///
/// - The lane is made for the first password: most nodes never need it.
final class PasswordDerivation: Sendable {
    private struct State {
        var lane: (any Lane)?
        var isStopped = false
    }

    private let environment: Environment
    private let state = Guarded(State())

    init(_ environment: Environment) {
        self.environment = environment
    }

    /// The text of `StoredCredentials` for a password by these rules; nil if the node is stopping.
    func credentials(of password: String, _ rules: PasswordRules) async -> [UInt8]? {
        let entropy = environment.entropy
        return await withUnsafeContinuation { caller in
            let work: @Sendable () -> Void = {
                let stored = Array(password.utf8).withUnsafeBytes { password in
                    StoredCredentials.derive(
                        password: ByteView(password),
                        iterations: rules.iterations,
                        withSHA1: rules.offersSHA1
                    ) { _ in
                        entropy.bytes(StoredCredentials.saltByteCount)
                    }
                }
                caller.resume(returning: Array(stored.text.utf8))
            }
            guard let lane = lane() else { return caller.resume(returning: nil) }
            lane.post(work)
        }
    }

    func stop() {
        let lane = state.withLock { state in
            state.isStopped = true
            return state.lane
        }
        lane?.stop()
    }

    /// Nil after `stop`.
    private func lane() -> (any Lane)? {
        state.withLock { state in
            guard !state.isStopped else { return nil }
            let lane = state.lane ?? environment.lanes.makeLane("passwords")
            state.lane = lane
            return lane
        }
    }
}
