internal import Bytes
internal import Credentials
internal import Seams
internal import Vocabulary
internal import Wire

/// The first half of a SCRAM exchange, until the client's proof.
struct StartedSCRAM {
    let server: SCRAMServer
    /// The login that the proof leads to; nil if the user is unknown.
    let login: Login?
}

extension Connection {
    func listMechanisms(_ request: CommandContext) {
        let list = Array((SCRAMMechanism.list + " PLAIN").utf8)
        list.withUnsafeBytes { buffer in
            ResponseEncoder.append(
                .success,
                to: output,
                replyTo: request.replyTo,
                value: ByteView(buffer),
                duration: duration
            )
        }
    }

    /// SASL_AUTH: all of PLAIN, or the first half of SCRAM.
    func authenticate(_ request: CommandContext, _ completion: Completion?) -> Execution {
        scram = nil
        if request.frame.key.text == "PLAIN" { return authenticatePlainly(request, completion) }
        guard let mechanism = SCRAMMechanism(name: request.frame.key) else {
            answer(.authError, to: request.replyTo, because: "Unknown mechanism.")
            return .done
        }
        var candidate: LoginCandidate?
        var lacksKeys = false
        let challenge = SCRAMServer.start(
            mechanism,
            clientFirst: request.frame.value,
            serverNonce: Array(service.environment.entropy.hex(16).utf8),
            secret: service.scramSecret
        ) { name in
            let emptyPassword = service.emptyPassword
            candidate = service.candidate(named: name, emptyPassword: emptyPassword)
            lacksKeys =
                candidate == nil && emptyPassword == nil
                && service.passwordlessBucket(named: name) != nil
            return candidate?.stored
        }
        // Keys are never derived on a reactor.
        if lacksKeys, completion == nil {
            return wait(request) { [service] done in
                service.lanes.nonIO.lane.post {
                    service.deriveEmptyPassword()
                    done(.ready)
                }
            }
        }
        switch challenge {
        case .malformed:
            answer(.invalid, to: request.replyTo, because: "Invalid SCRAM message.")
        case .answer(let server, let text):
            scram = StartedSCRAM(server: server, login: candidate?.login)
            answer(.authContinue, text, request)
        }
        return .done
    }

    /// SASL_STEP: the second half of SCRAM.
    func continueAuthentication(_ request: CommandContext) {
        guard let started = scram else {
            return answer(
                .invalid,
                to: request.replyTo,
                because: "SASL_STEP needs a preceding SASL_AUTH."
            )
        }
        scram = nil
        guard
            case .authenticated(_, let text) = started.server.finish(
                clientFinal: request.frame.value
            ), let login = started.login, logIn(as: login)
        else { return refuseLogin(request) }
        answer(.success, text, request)
    }

    /// Checks a PLAIN login on another lane, since checking a password takes milliseconds on
    /// purpose.
    private func authenticatePlainly(
        _ request: CommandContext,
        _ completion: Completion?
    ) -> Execution {
        guard let attempt = PasswordLogin(plain: request.frame.value) else {
            answer(
                .invalid,
                to: request.replyTo,
                because: "PLAIN needs authzid, user and password."
            )
            return .done
        }
        switch completion {
        case .loggedIn(let login):
            guard logIn(as: login) else { break }
            answer(.success, to: request.replyTo)
            return .done
        case .done, .failed, .ready, .roomMade, .durable, .subDocument: break
        case nil:
            if isGuest(attempt), logIn(as: .guest(bucket: attempt.user)) {
                answer(.success, to: request.replyTo)
                return .done
            }
            return wait(request) { [service] done in
                service.lanes.nonIO.lane.post {
                    let found = service.candidate(named: attempt.user, emptyPassword: nil)
                    // An unknown user takes as long as a wrong password.
                    let isRight = service.passwords.verify(attempt, stored: found?.stored)
                    guard isRight, let found else { return done(.failed(.authError, "")) }
                    done(.loggedIn(found.login))
                }
            }
        }
        refuseLogin(request)
        return .done
    }

    /// Whether a login without a password is one of a bucket that needs none: a user of the bucket's
    /// name takes precedence.
    private func isGuest(_ attempt: PasswordLogin) -> Bool {
        attempt.password.isEmpty && service.accounts[attempt.user] == nil
            && service.passwordlessBucket(named: attempt.user) != nil
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
        noteMapScope()
        return true
    }

    private func refuseLogin(_ request: CommandContext) {
        service.environment.trace.info("login", "refused from \(port.peer)")
        answer(.authError, to: request.replyTo, because: "User or password is wrong.")
    }

    private func answer(_ status: Status, _ text: [UInt8], _ request: CommandContext) {
        text.withUnsafeBytes { buffer in
            ResponseEncoder.append(
                status,
                to: output,
                replyTo: request.replyTo,
                value: ByteView(buffer),
                duration: duration
            )
        }
    }

    /// Logs the client in as a guest of the bucket `default`, if that needs no password: old
    /// clients send no login for it.
    func becomeGuestOfDefault() -> Bool {
        guard let open = service.passwordlessBucket(named: "default") else { return false }
        login = .guest(bucket: "default")
        bucket = open
        return true
    }
}
