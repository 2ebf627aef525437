internal import Bytes
internal import ClusterService
internal import Seams

/// Notes on one HTTP connection until its client has logged in (`LoginWatch`).
///
/// - Until then it is one of a bounded number, and is closed after some time.
/// - Until a request is admitted, at most `LoginWatch.inputBytesMax` of its body are read: the login is
///   in its head.
final class ConnectionLogin: Sendable {
    private struct State {
        var isStranger = true
        var refusedCount = 0
        var notifyAdmission: (@Sendable () -> Void)?
    }

    /// The client's address, in digits.
    let host: String
    private let service: AdministrationService
    private let number: LoginWatch.Number
    private let state = Guarded(State())

    /// The connection was accepted; `end` closes it.
    init(_ service: AdministrationService, host: String, end: @escaping @Sendable () -> Void) {
        self.service = service
        self.host = host
        number = service.users.strangers.enter(
            from: host,
            at: service.cluster.monotonicNanoseconds,
            end: end
        )
    }

    /// Whether the client has not logged in.
    var isStranger: Bool { state.withLock { $0.isStranger } }

    /// Whether the connection closes behind its next response: too many logins were refused.
    var isRefused: Bool { state.withLock { $0.refusedCount >= LoginWatch.refusalsMax } }

    /// Calls `notify` for each request that is admitted.
    func observeAdmission(_ notify: @escaping @Sendable () -> Void) {
        state.withLock { $0.notifyAdmission = notify }
    }

    /// A request was admitted: its body may be read.
    func notifyAdmitted() { state.withLock { $0.notifyAdmission }?() }

    /// The identity of a request on the connection.
    func note(_ identity: Identity) {
        guard isStranger else { return }
        let name: String
        switch identity {
        case .anonymous: return
        case .unprovisioned: return recordGuest()
        case .guest: return identity.exists(in: service.state) ? recordGuest() : ()
        case .administrator(let known), .user(let known), .bucket(let known): name = known
        }
        state.withLock { $0.isStranger = false }
        service.users.strangers.recordLogin(
            number,
            of: name,
            from: host,
            at: service.cluster.monotonicNanoseconds
        )
    }

    /// The client may use something without a login.
    func recordGuest() {
        service.users.strangers.recordGuest(
            number,
            from: host,
            at: service.cluster.monotonicNanoseconds
        )
    }

    func recordRefusal(of user: String) {
        state.withLock { $0.refusedCount += 1 }
        service.users.noteRefusedLogin(user, from: host)
    }

    /// Waits before a login from an address with refused ones.
    func pause() async {
        let delay = service.users.strangers.delayNanoseconds(
            from: host,
            at: service.cluster.monotonicNanoseconds
        )
        if delay > 0 { try? await Task.sleep(nanoseconds: delay) }
    }

    func close() {
        state.withLock { $0.notifyAdmission = nil }
        service.users.strangers.leave(number)
    }
}
