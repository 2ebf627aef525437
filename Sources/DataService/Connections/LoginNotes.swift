internal import Credentials
internal import Seams
internal import Wire

/// Notes on one connection until its client has logged in (`LoginWatch`).
struct LoginNotes {
    /// 0 if the connection is not counted.
    private var number: LoginWatch.Number = 0
    private var refusedCount = 0
    /// The first half of a login by SCRAM, until its second half.
    var scram: StartedSCRAM?

    /// The connection was accepted.
    mutating func enter(_ connection: Connection) {
        connection.access.isStranger = true
        let port = connection.port
        number = connection.service.strangers.enter(
            from: port.peer.host,
            at: connection.service.environment.time.monotonicNanoseconds()
        ) { [weak port] in port?.close() }
    }

    func leave(_ service: DocumentService) {
        if number != 0 { service.strangers.leave(number) }
    }

    /// The client has another login.
    mutating func recordLogin(_ login: Login, of connection: Connection) {
        let (service, host) = (connection.service, connection.port.peer.host)
        let now = service.environment.time.monotonicNanoseconds()
        switch login {
        case .anonymous, .plain: return
        case .guest: service.strangers.recordGuest(number, from: host, at: now)
        case .user(let name, _), .bucketUser(let name, _):
            service.strangers.recordLogin(number, of: name, from: host, at: now)
        }
        connection.access.isStranger = false
    }

    /// A login was refused.
    ///
    /// - Returns: Whether the connection has to close.
    mutating func recordRefusal(_ user: String, of connection: Connection) -> Bool {
        let service = connection.service
        let line = service.strangers.recordRefusal(
            user,
            from: connection.port.peer.host,
            at: service.environment.time.monotonicNanoseconds()
        )
        if let line { service.environment.trace.warning("login", line) }
        refusedCount += 1
        return refusedCount >= LoginWatch.refusalsMax
    }
}

extension DocumentService {
    /// The clients that have not logged in.
    var strangers: LoginWatch { environment.network.strangers }
}

extension Connection {
    /// Suspends a login from an address with refused ones for a moment; nil if there is no pause.
    func pauseLogin(_ request: CommandContext) -> Execution? {
        let now = service.environment.time.monotonicNanoseconds()
        let delay = service.strangers.delayNanoseconds(from: port.peer.host, at: now)
        guard delay > 0 else { return nil }
        return wait(request, .login) { [service] done in
            service.lanes.passwords.post(after: delay) { done(.admitted) }
        }
    }

    /// Checks a password on the lane of the checks, in its turn.
    func checkPassword(_ attempt: PasswordLogin, _ request: CommandContext) -> Execution {
        let now = service.environment.time.monotonicNanoseconds()
        let host = port.peer.host
        let isKnown = service.strangers.isKnown(attempt.user, from: host, at: now)
        return wait(request, .login) { [service, origin] done in
            let work: PasswordChecks.Work = {
                let found = service.candidate(
                    named: attempt.user,
                    from: origin,
                    emptyPassword: nil
                )
                // An unknown user takes as long as a wrong password.
                let isRight = service.passwords.verify(attempt, stored: found?.stored)
                guard isRight, let found else { return done(.failed(.authError, "")) }
                done(.loggedIn(found.login))
            }
            // Without room the request stays in the input, and the connection is not read.
            service.passwords.checks.enter(attempt, isKnown: isKnown, work: work) { done(.ready) }
        }
    }
}
