package import Bytes
package import Credentials
package import Wire

/// The login on a new connection: HELLO, SCRAM, SELECT_BUCKET, GET_CLUSTER_CONFIG.
///
/// - The password is never sent, unless the settings allow PLAIN; then only to a server that offers
///   no SCRAM mechanism.
/// - The login fails if the server does not prove that it has the password's keys.
package struct Handshake: Sendable {
    /// The user and bucket of a login.
    package struct Login: Sendable {
        package let user: String
        package let password: String
        /// A cache of derived keys, shared by all connections of a client.
        package let keys: SCRAMPassword
        package let bucket: String
        package var allowsPlain = false
        /// Features that are requested beside `wanted`.
        package var features = FeatureSet()

        package init(user: String, password: String, keys: SCRAMPassword? = nil, bucket: String) {
            self.user = user
            self.password = password
            self.keys = keys ?? SCRAMPassword(password)
            self.bucket = bucket
        }
    }

    /// Why the login failed; `Reason` decides whether a retry may help.
    package struct Failure: Error, Hashable, Sendable, CustomStringConvertible {
        package enum Reason: Hashable, Sendable {
            case authentication
            /// The bucket does not exist, or the user has no access to it.
            case noBucket
            /// The bucket exists and does not serve yet.
            case notReady
            /// The server violated the protocol.
            case invalidMessage
        }

        package let reason: Reason
        package let description: String

        package init(_ reason: Reason, _ description: String) {
            self.reason = reason
            self.description = description
        }
    }

    package enum Progress: Sendable {
        case more
        /// Logged in. The configuration is nil if the node has none yet.
        case done(FeatureSet, configuration: [UInt8]?)
    }

    private enum Step {
        case hello
        case mechanisms
        case authenticate(SCRAMClient)
        case prove(SCRAMClient)
        case plain
        case select
        case configuration
    }

    /// The requested features.
    ///
    /// Snappy and collections are omitted, because the client does not use them.
    package static let wanted = FeatureSet([
        .tcpNoDelay, .mutationSeqno, .extendedErrors, .selectBucket, .json, .duplex,
        .clusterMapNotification, .unorderedExecution, .alternativeRequest, .syncReplication,
        .preserveTTL, .clusterConfigWithKnownVersion, .dedupeNotMyVBucketConfig,
    ])

    /// The features that a client requests beside `wanted` to use extended attributes.
    package static let attributes = FeatureSet([
        .xattr, .createAsDeleted, .subdocDocumentMacro, .subdocReplaceBodyWithXattr,
        .subdocReplicaRead, .subdocManyXattrKeys, .subdocBinaryXattr,
    ])

    private let login: Login
    private let nonce: [UInt8]
    private let agent: String
    private var mechanism = SCRAMMechanism.sha512
    private var step = Step.hello
    private var features = FeatureSet()

    package init(_ login: Login, nonce: String) {
        self.login = login
        self.nonce = Array(nonce.utf8)
        agent = "{\"a\":\"divan-client\",\"i\":\"\(nonce.prefix(16))/\(nonce.suffix(16))\"}"
    }

    /// Sends the first requests.
    package func begin(_ output: ByteWriter) {
        let list = ByteWriter()
        var features = Handshake.wanted
        for feature in login.features.features { features.insert(feature) }
        features.append(to: list)
        send(.hello, Array(agent.utf8), value: list.bytes, to: output)
        send(.saslListMechanisms, [], value: [], to: output)
    }

    /// Handles the next answer and sends the next requests.
    ///
    /// - Throws: `Failure` if the server refused a step, sent a malformed answer, or did not prove
    ///   that it has the password's keys.
    package mutating func handle(_ frame: Frame, _ output: ByteWriter) throws(Failure) -> Progress {
        switch step {
        case .hello:
            try expect(frame, .hello, among: [.success], otherwise: .invalidMessage, what: "HELLO")
            features = FeatureSet(frame.value) ?? FeatureSet()
            step = .mechanisms
        case .mechanisms:
            try expect(
                frame,
                .saslListMechanisms,
                among: [.success],
                otherwise: .invalidMessage,
                what: "SASL_LIST_MECHS"
            )
            try choose(frame.value.text.split(separator: " ").map(String.init), output)
        case .authenticate(let scram):
            try expect(
                frame,
                .saslAuth,
                among: [.authContinue],
                otherwise: .authentication,
                what: what
            )
            try prove(scram, frame, to: output)
        case .prove(let scram):
            try expect(frame, .saslStep, among: [.success], otherwise: .authentication, what: what)
            guard scram.isGenuine(serverFinal: frame.value) else {
                throw Failure(.authentication, "the server did not prove knowledge of the password")
            }
            select(output)
        case .plain:
            try expect(frame, .saslAuth, among: [.success], otherwise: .authentication, what: what)
            select(output)
        case .select:
            try expectBucket(frame)
            step = .configuration
        case .configuration:
            try expect(
                frame,
                .getClusterConfig,
                among: [.success, .keyNotFound],
                otherwise: .notReady,
                what: "the request for the map of bucket \(login.bucket)"
            )
            let isThere = frame.header.status == .success && !frame.value.isEmpty
            return .done(features, configuration: isThere ? frame.value.bytes : nil)
        }
        return .more
    }

    private var what: String { "the login of \(login.user)" }

    // MARK: Steps

    private mutating func choose(_ offered: [String], _ output: ByteWriter) throws(Failure) {
        let password = Array(login.password.utf8)
        for candidate in [SCRAMMechanism.sha512, .sha256] where offered.contains(candidate.rawValue)
        {
            mechanism = candidate
            let scram = SCRAMClient(mechanism, user: login.user, nonce: nonce)
            step = .authenticate(scram)
            return send(
                .saslAuth,
                Array(mechanism.rawValue.utf8),
                value: scram.clientFirst,
                to: output
            )
        }
        guard login.allowsPlain, offered.contains("PLAIN") else {
            throw Failure(
                .authentication,
                "the server offers no login that does not send the password; it offers "
                    + (offered.isEmpty ? "none" : offered.joined(separator: ", "))
            )
        }
        step = .plain
        let message = [0] + Array(login.user.utf8) + [0] + password
        send(.saslAuth, Array("PLAIN".utf8), value: message, to: output)
    }

    private mutating func prove(
        _ scram: SCRAMClient,
        _ frame: Frame,
        to output: ByteWriter
    ) throws(Failure) {
        guard
            case .send(let next, let message) = scram.answer(
                serverFirst: frame.value,
                password: login.keys
            )
        else { throw Failure(.invalidMessage, "the server's SCRAM message is malformed") }
        step = .prove(next)
        send(.saslStep, Array(mechanism.rawValue.utf8), value: message, to: output)
    }

    private mutating func select(_ output: ByteWriter) {
        step = .select
        send(.selectBucket, Array(login.bucket.utf8), value: [], to: output)
        send(.getClusterConfig, [], value: [], to: output)
    }

    private func expectBucket(_ frame: Frame) throws(Failure) {
        // A node answers "not found" for a bucket that is being created or warms up.
        let isNotReady =
            frame.header.status == .keyNotFound || frame.header.status == .notInitialized
            || frame.header.status == .temporaryFailure
        try expect(
            frame,
            .selectBucket,
            among: [.success],
            otherwise: isNotReady ? .notReady : .noBucket,
            what: "the selection of bucket \(login.bucket)"
        )
    }

    private func expect(
        _ frame: Frame,
        _ opcode: Opcode,
        among statuses: [Status],
        otherwise reason: Failure.Reason,
        what: String
    ) throws(Failure) {
        guard frame.opcode == opcode else {
            throw Failure(.invalidMessage, "the server's answer is not one to \(what)")
        }
        if let status = frame.header.status, statuses.contains(status) { return }
        let name = frame.header.status.map(\.name) ?? "status \(frame.header.statusNumber)"
        throw Failure(reason, "the server answered \(name) to \(what)")
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
