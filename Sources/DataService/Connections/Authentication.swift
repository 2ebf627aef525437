internal import Bytes
internal import Credentials
internal import Seams
package import Vocabulary
internal import Wire

/// The first half of a SCRAM exchange, until the client's proof.
struct StartedSCRAM {
    /// Nil until the challenge was made.
    var server: SCRAMServer?
    /// The name that the client sent.
    var user = ""
    /// The login that the proof leads to; nil if the user is unknown.
    var login: Login?
}

extension Connection {
    /// From where the client connected; computed, because only logins need it.
    var origin: ClientOrigin { ClientOrigin(peer: port.peer.host) }

    func listMechanisms(_ request: CommandContext) {
        let rules = service.passwords.rules
        let offered = rules.mechanisms.map(\.rawValue) + (mayUsePlain(rules) ? ["PLAIN"] : [])
        let list = Array(offered.joined(separator: " ").utf8)
        list.withUnsafeBytes { buffer in
            respond(request, .success, value: ByteView(buffer))
        }
    }

    /// Whether the password of a client can be sent as it is: over TLS, on this machine, or if the cluster's
    /// settings allow it.
    private func mayUsePlain(_ rules: PasswordRules) -> Bool {
        port.isSecured || origin == .loopback || rules.allowsPlainWithoutTLS
    }

    /// The client has proved a certificate: it is logged in as the user that the certificate names.
    package func authenticated(by certificate: ClientCertificate) {
        let rules = service.passwords.rules.certificates
        let name = rules.user(of: certificate)
        if let name, let account = service.accounts[name],
            logIn(as: .user(name, incarnation: account.incarnation))
        {
            return
        }
        // Otherwise the client may still log in with a password, unless every client needs a certificate.
        guard rules.state == .mandatory else { return }
        _ = stranger.recordRefusal(name ?? "a certificate that names no user", of: self)
        port.close()
    }

    /// SASL_AUTH: all of PLAIN, or the first half of SCRAM.
    func authenticate(_ request: CommandContext, _ completion: Completion?) -> Execution {
        stranger.scram = nil
        if request.frame.key.text == "PLAIN" { return authenticatePlainly(request, completion) }
        if completion == nil, let pause = pauseLogin(request) { return pause }
        let rules = service.passwords.rules
        guard let mechanism = SCRAMMechanism(name: request.frame.key),
            rules.mechanisms.contains(mechanism)
        else { return refuse(request, .authError, "Unknown mechanism.") }
        var started = StartedSCRAM()
        var lacksKeys = false
        let challenge = SCRAMServer.start(
            mechanism,
            clientFirst: request.frame.value,
            serverNonce: Array(service.environment.entropy.hex(16).utf8),
            rules: rules
        ) { name in
            let emptyPassword = service.emptyPassword
            let candidate = service.candidate(
                named: name,
                from: origin,
                emptyPassword: emptyPassword
            )
            started.user = name
            started.login = candidate?.login
            lacksKeys =
                candidate == nil && emptyPassword == nil
                && service.passwordlessBucket(named: name, from: origin) != nil
            return candidate?.stored
        }
        // Keys are never derived on a reactor.
        if lacksKeys, !(completion?.isReady ?? false) {
            return wait(request, .login) { [service] done in
                service.lanes.passwords.post {
                    service.deriveEmptyPassword()
                    done(.ready)
                }
            }
        }
        switch challenge {
        case .malformed:
            answer(.invalid, request, "Invalid SCRAM message.")
        case .answer(let server, let text):
            started.server = server
            stranger.scram = started
            answer(.authContinue, text, to: request)
        }
        return .done
    }

    /// SASL_STEP: the second half of SCRAM.
    func continueAuthentication(_ request: CommandContext) -> Execution {
        guard let started = stranger.scram, let server = started.server else {
            return refuse(request, .invalid, "SASL_STEP needs a preceding SASL_AUTH.")
        }
        stranger.scram = nil
        guard case .authenticated(_, let text) = server.finish(clientFinal: request.frame.value),
            let login = started.login, logIn(as: login)
        else { return refuseLogin(request, of: started.user) }
        answer(.success, text, to: request)
        return .done
    }

    /// Checks a PLAIN login on another lane, since checking a password takes tens of milliseconds on
    /// purpose.
    ///
    /// A login that is known to be right waits for nothing.
    private func authenticatePlainly(
        _ request: CommandContext,
        _ completion: Completion?
    ) -> Execution {
        guard let attempt = PasswordLogin(plain: request.frame.value) else {
            return refuse(request, .invalid, "PLAIN needs authzid, user and password.")
        }
        guard mayUsePlain(service.passwords.rules) else {
            return refuse(
                request,
                .authError,
                "PLAIN would send the password unencrypted. Use TLS (couchbases://) or SCRAM."
            )
        }
        switch completion {
        case .loggedIn(let login):
            guard logInPlainly(as: login, by: attempt) else { break }
            answer(.success, to: request.replyTo)
            return .done
        case .done, .failed, .roomMade, .durable, .subDocument: break
        case .ready, .admitted: return checkPassword(attempt, request)
        case nil:
            if let known = knownLogin(attempt), logInPlainly(as: known, by: attempt) {
                answer(.success, to: request.replyTo)
                return .done
            }
            return pauseLogin(request) ?? checkPassword(attempt, request)
        }
        return refuseLogin(request, of: attempt.user)
    }

    /// As `logIn(as:)`; reports a password that others could have read.
    private func logInPlainly(as new: Login, by attempt: PasswordLogin) -> Bool {
        guard logIn(as: new) else { return false }
        if !port.isSecured, origin != .loopback, !attempt.password.isEmpty {
            service.passwords.plainLogins.record(attempt.user)
        }
        return true
    }

    /// The login of a guest, or of a password that was checked lately; nil otherwise.
    private func knownLogin(_ attempt: PasswordLogin) -> Login? {
        if isGuest(attempt) { return .guest(bucket: attempt.user, from: origin) }
        let found = service.candidate(named: attempt.user, from: origin, emptyPassword: nil)
        let result = service.passwords.knownResult(of: attempt, stored: found?.stored)
        return result == true ? found?.login : nil
    }

    /// Whether a login without a password is one of a bucket that needs none: a user of the bucket's
    /// name takes precedence.
    private func isGuest(_ attempt: PasswordLogin) -> Bool {
        attempt.password.isEmpty && service.accounts[attempt.user] == nil
            && service.passwordlessBucket(named: attempt.user, from: origin) != nil
    }

    /// Sets the login and, as old clients rely on, selects the bucket of the user's name if the user
    /// may use it; otherwise no bucket is selected.
    ///
    /// - Returns: False if the login is no longer valid.
    private func logIn(as new: Login) -> Bool {
        guard service.grants(of: new) != nil, let name = new.name else { return false }
        login = new
        let isAllowed = mayUse(bucketNamed: name)
        bucket = isAllowed ? service.bucket(named: name) : nil
        // A bucket that this node has not opened yet is selected once it is open.
        if isAllowed, bucket == nil, service.configuration(ofBucket: name) != nil {
            lostBucketName = name
        }
        recordMapScope()
        return true
    }

    /// Answers a refused login; after some of them the connection closes behind the answer.
    private func refuseLogin(_ request: CommandContext, of user: String) -> Execution {
        answer(.authError, request, "User or password is wrong.")
        return stranger.recordRefusal(user, of: self) ? .close : .done
    }

    private func answer(_ status: Status, _ text: [UInt8], to request: CommandContext) {
        text.withUnsafeBytes { buffer in
            respond(request, status, value: ByteView(buffer))
        }
    }

    /// Logs the client in as a guest of the bucket `default`, if that needs no password: old
    /// clients send no login for it.
    func becomeGuestOfDefault() -> Bool {
        guard let open = service.passwordlessBucket(named: "default", from: origin) else {
            return false
        }
        login = .guest(bucket: "default", from: origin)
        bucket = open
        return true
    }
}
