internal import Bytes
internal import Credentials
internal import Seams
internal import Vocabulary
internal import Wire

/// The identity of a connection's client.
enum Login: Equatable, Sendable {
    case anonymous
    case user(String)
    /// A guest of one bucket that needs no password.
    case guest(bucket: String)
    /// A client of the plain memcached listener.
    case plain
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
        let challenge = SCRAMServer.start(
            mechanism,
            clientFirst: request.frame.value,
            serverNonce: Array(service.environment.entropy.hex(16).utf8),
            secret: service.scramSecret,
            lookup: service.credentials(ofUser:)
        )
        switch challenge {
        case .malformed:
            answer(.invalid, to: request.replyTo, because: "Invalid SCRAM message.")
        case .answer(let server, let text):
            scram = server
            answer(.authContinue, text, request)
        }
        return .done
    }

    /// SASL_STEP: the second half of SCRAM.
    func continueAuthentication(_ request: CommandContext) {
        guard let server = scram else {
            return answer(
                .invalid,
                to: request.replyTo,
                because: "SASL_STEP needs a preceding SASL_AUTH."
            )
        }
        scram = nil
        switch server.finish(clientFinal: request.frame.value) {
        case .malformed, .refused: refuseLogin(request)
        case .authenticated(let user, let text):
            login = .user(user)
            bucket = nil
            answer(.success, text, request)
        }
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
        if attempt.password.isEmpty, let open = service.passwordlessBucket(named: attempt.user) {
            login = .guest(bucket: attempt.user)
            bucket = open
            answer(.success, to: request.replyTo)
            return .done
        }
        switch completion {
        case .done:
            login = .user(attempt.user)
            bucket = nil
            answer(.success, to: request.replyTo)
            return .done
        case .failed, .ready, .roomMade, .durable:
            refuseLogin(request)
            return .done
        case nil:
            return wait(request) { [service] done in
                service.lanes.nonIO.lane.post {
                    let stored = service.credentials(ofUser: attempt.user)
                    let isRight = service.passwords.verify(attempt, stored: stored)
                    done(isRight ? .done : .failed(.authError, ""))
                }
            }
        }
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

    /// Whether the connection may select a bucket.
    func mayUse(_ bucket: OpenBucket) -> Bool {
        switch login {
        case .anonymous, .plain: false
        case .user: true  // The administrator: other users come with roles.
        case .guest(let name): name == bucket.name && bucket.settings.passwordless
        }
    }

    /// Whether the connection may select a bucket that is not open on this node.
    func mayUse(bucketNamed name: String) -> Bool {
        switch login {
        case .anonymous, .plain: false
        case .user: true
        case .guest(let own): own == name
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

extension DocumentService {
    func passwordlessBucket(named name: String) -> OpenBucket? {
        guard let bucket = bucket(named: name), bucket.settings.passwordless else { return nil }
        return bucket
    }
}
