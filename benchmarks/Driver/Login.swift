internal import Bytes
internal import Credentials
internal import Wire

/// The login on an open connection up to a selected bucket and its map, one answer at a time:
/// HELLO, SCRAM-SHA512 in two steps, SELECT_BUCKET, GET_CLUSTER_CONFIG.
struct Login {
    enum Progress {
        case more
        /// The bucket's configuration.
        case done(configuration: [UInt8])
    }

    private enum Step {
        case hello
        case authenticate
        case prove
        case select
        case configuration
    }

    struct Account: Sendable {
        let user: String
        let password: String
        let bucket: String
        /// Shared by all connections of the account.
        let keys: SCRAMPassword

        init(user: String, password: String, bucket: String) {
            self.user = user
            self.password = password
            self.bucket = bucket
            keys = SCRAMPassword(password)
        }
    }

    private let account: Account
    private let wantsTokens: Bool
    private var scram: SCRAMClient
    private var step = Step.hello

    init(_ account: Account, wantsTokens: Bool, nonce: String) {
        self.account = account
        self.wantsTokens = wantsTokens
        scram = SCRAMClient(.sha512, user: account.user, nonce: Array(nonce.utf8))
    }

    /// Sends the first request.
    func begin(_ output: ByteWriter) {
        var features: [Feature] = [.selectBucket, .extendedErrors, .json, .tcpNoDelay]
        if wantsTokens { features.append(.mutationSeqno) }
        let list = ByteWriter()
        FeatureSet(features).append(to: list)
        send(.hello, Array("divan-bench".utf8), value: list.bytes, to: output)
    }

    /// Handles the next answer and sends the next request.
    mutating func take(_ frame: Frame, _ output: ByteWriter) throws(BenchError) -> Progress {
        switch step {
        case .hello:
            try expect(frame, .success, "HELLO")
            step = .authenticate
            send(.saslAuth, mechanism, value: scram.clientFirst, to: output)
        case .authenticate:
            try expect(frame, .authContinue, "SCRAM's first step")
            guard
                case .send(let next, let message) = scram.answer(
                    serverFirst: frame.value,
                    password: account.keys
                )
            else { throw BenchError("the server's SCRAM message is malformed") }
            scram = next
            step = .prove
            send(.saslStep, mechanism, value: message, to: output)
        case .prove:
            try expect(frame, .success, "the login of \(account.user)")
            guard scram.isGenuine(serverFinal: frame.value) else {
                throw BenchError("the server did not prove knowledge of the password")
            }
            step = .select
            send(.selectBucket, Array(account.bucket.utf8), value: [], to: output)
        case .select:
            try expect(frame, .success, "the selection of bucket \(account.bucket)")
            step = .configuration
            send(.getClusterConfig, [], value: [], to: output)
        case .configuration:
            try expect(frame, .success, "the question for the cluster map")
            return .done(configuration: frame.value.bytes)
        }
        return .more
    }

    private var mechanism: [UInt8] { Array(SCRAMMechanism.sha512.rawValue.utf8) }

    private func expect(
        _ frame: Frame,
        _ status: Status,
        _ what: String
    ) throws(BenchError) {
        guard frame.header.statusNumber != status.rawValue else { return }
        let name = frame.header.status.map(\.name) ?? "\(frame.header.statusNumber)"
        throw BenchError("the server answered \(name) to \(what) \(frame.value.text)")
    }

    private func send(_ opcode: Opcode, _ key: [UInt8], value: [UInt8], to output: ByteWriter) {
        key.withUnsafeBytes { key in
            value.withUnsafeBytes { value in
                RequestEncoder.append(
                    opcode,
                    to: output,
                    key: ByteView(key),
                    value: ByteView(value)
                )
            }
        }
    }
}
