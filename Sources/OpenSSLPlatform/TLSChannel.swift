package import Bytes
internal import COpenSSL
internal import Glibc
package import Seams
package import Vocabulary

/// One TLS connection, which reads from and writes to the caller's buffers.
///
/// OpenSSL gets a BIO whose reads come from the input of the current call, or from a socket, and whose writes go
/// to the output of the call, so that no bytes are copied between them.
///
/// - Belongs to one thread at a time.
package final class TLSChannel: SecureSocket {
    /// The proof that the other side owes in the handshake.
    enum Proof {
        /// An Ed25519 key, as nodes have.
        case key
        /// A certificate if the context requests one: a client of a server.
        case certificate
        /// A certificate that has the name or address by which this side reaches a server.
        case server(host: String)
    }

    /// Bytes and records that were sealed since the last change of the key, and their limits.
    private struct KeyUse {
        let limits: TLSLimits
        var bytes: UInt64 = 0
        var records: UInt64 = 0

        var isUsedUp: Bool { bytes >= limits.bytesOfKeyMax || records >= limits.recordsOfKeyMax }
    }

    /// The state of a socket, as far as one call has found it.
    fileprivate enum SocketState {
        case readable
        /// A short read has emptied it: later bytes cause a new event.
        case drained
        /// The client has shut down its side, or the connection is lost.
        case ended
    }

    /// A socket from which OpenSSL reads; without one, it reads from the input of the current call.
    fileprivate struct SocketInput {
        let descriptor: Int32
        var state = SocketState.readable
        /// Bytes of the first record that have arrived; nil once the handshake has begun.
        var firstBytes: Int?
    }

    /// Bytes that OpenSSL reads ahead: one read for several records.
    static let inputBufferBytes = 64 << 10
    /// As `inputBufferBytes`, for clients, of which there are many: two records.
    static let clientInputBufferBytes = 33 << 10
    /// Content of one call, so that the receiver can pause between two calls.
    private static let contentBytesMax = 256 << 10
    /// A record of a handshake with a client: buffers of half-open handshakes are a third smaller than with
    /// whole records.
    static let handshakeRecordBytesMax = 4 << 10
    /// Bytes of a client's first record that must have arrived before the handshake begins: all but few first
    /// records are shorter.
    private static let firstBytesMax = 2 << 10
    /// The header of a record, RFC 8446, section 5.1: type, version, length.
    private static let recordHeaderBytes = 5
    /// Content of one record, RFC 8446, section 5.1.
    private static let recordBytesMax = 16 << 10

    package private(set) var peerKey: [UInt8]?
    package private(set) var clientCertificate: ClientCertificate?
    /// Whether the handshake is over, so that content can be sent.
    package private(set) var isOpen = false
    private let session: OpaquePointer
    private let proof: Proof
    /// Why content ends, if that was found behind content.
    private var end: SecureReceipt?
    private var keyUse: KeyUse

    // The buffers of the current call.
    fileprivate var socket: SocketInput?
    fileprivate var input = ByteView.empty
    fileprivate var consumed = 0
    fileprivate var output: ByteWriter?

    init(
        _ context: OpaquePointer,
        isInitiator: Bool,
        _ limits: TLSLimits,
        proof: Proof = .key,
        socket: Int32? = nil
    ) {
        guard let session = SSL_new(context), let bio = BIO_new(TLSChannel.method) else {
            preconditionFailure("there is memory for a TLS connection")
        }
        self.session = session
        self.proof = proof
        keyUse = KeyUse(limits: limits)
        self.socket = socket.map { SocketInput(descriptor: $0) }
        if case .certificate = proof { self.socket?.firstBytes = 0 }
        BIO_set_data(bio, Unmanaged.passUnretained(self).toOpaque())
        BIO_set_init(bio, 1)
        // The session owns the BIO.
        SSL_set_bio(session, bio, bio)
        isInitiator ? SSL_set_connect_state(session) : SSL_set_accept_state(session)
        if case .server(let host) = proof { expect(host) }
    }

    /// Has the handshake compare the server's certificate with a name or an address.
    private func expect(_ host: String) {
        let address = a2i_IPADDRESS(host)
        defer { ASN1_OCTET_STRING_free(address) }
        let isSet =
            address != nil
            ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(session), host) == 1
                // The server may have a certificate for each name.
            : SSL_set1_host(session, host) == 1 && divan_ssl_set_server_name(session, host) == 1
        precondition(isSet, "there is memory for the name of a server")
    }

    deinit { SSL_free(session) }

    package func receive(
        _ input: ByteView,
        content: ByteWriter,
        output: ByteWriter
    ) -> SecureProgress {
        begin(input, output)
        defer { finish() }
        let next = isOpen ? read(content) : (greet() ?? .more)
        return SecureProgress(consumed: consumed, next: next)
    }

    package func receive(
        into place: UnsafeMutableRawPointer,
        most: Int,
        output: ByteWriter
    ) -> SecureReceipt {
        if let end { return end }
        begin(.empty, output)
        defer { finish() }
        socket?.state = .readable
        if awaitsFirstRecord() { return .wait }
        if !isOpen, let next = greet() { return receipt(of: next) }
        var received = 0
        while received < most {
            var count = 0
            let result = SSL_read_ex(session, place + received, most - received, &count)
            guard result == 1 else {
                let next = receipt(of: next(after: result))
                guard received > 0 else { return next }
                if next != .wait { end = next }
                return .content(received, hasMore: next != .wait)
            }
            received += count
        }
        return .content(received, hasMore: true)
    }

    private func receipt(of next: SecureProgress.Next) -> SecureReceipt {
        switch next {
        case .receive, .more: socket?.state == .ended ? .end(nil) : .wait
        case .close(let reason): .end(socket?.state == .ended ? nil : reason)
        }
    }

    package func send(_ content: ByteView, output: ByteWriter) -> Bool {
        precondition(isOpen, "content is sent after the handshake")
        begin(.empty, output)
        defer { finish() }
        var rest = content
        while !rest.isEmpty {
            guard changeKey() else { return false }
            let part = rest.slice(0, min(rest.count, TLSChannel.recordBytesMax))
            var count = 0
            // A caller may have asked for shorter records. Nothing is sealed while a message of a
            // handshake has arrived in part.
            guard SSL_write_ex(session, part.start, part.count, &count) == 1 else { return false }
            keyUse.bytes += UInt64(count)
            keyUse.records += 1
            rest = rest.dropFirst(count)
        }
        return true
    }

    /// Appends the end of the content, which the other side can tell from a lost connection.
    package func sendEnd(output: ByteWriter) {
        guard isOpen else { return }
        begin(.empty, output)
        defer { finish() }
        SSL_shutdown(session)
    }

    private func begin(_ input: ByteView, _ output: ByteWriter) {
        self.input = input
        self.output = output
        consumed = 0
        ERR_clear_error()
    }

    private func finish() {
        input = .empty
        output = nil
    }

    /// Continues the handshake; nil once it is complete.
    private func greet() -> SecureProgress.Next? {
        let result = SSL_do_handshake(session)
        guard result == 1 else { return next(after: result) }
        switch proof {
        case .key:
            peerKey = TLSChannel.key(of: session)
            if peerKey == nil { return .close("its certificate has no Ed25519 key") }
        case .certificate:
            divan_ssl_begin_content(
                session,
                TLSChannel.clientInputBufferBytes,
                TLSChannel.recordBytesMax
            )
            if let certificate = SSL_get0_peer_certificate(session) {
                let names = CertificateNames(of: certificate).found
                clientCertificate = ClientCertificate(names: names)
            }
        case .server: break
        }
        isOpen = true
        return nil
    }

    private func read(_ content: ByteWriter) -> SecureProgress.Next {
        let before = content.count
        while content.count - before < TLSChannel.contentBytesMax {
            let start = content.count
            let place = content.claim(TLSChannel.recordBytesMax)
            var count = 0
            let result = SSL_read_ex(session, place, TLSChannel.recordBytesMax, &count)
            content.truncate(to: start + (result == 1 ? count : 0))
            guard result == 1 else { return next(after: result) }
        }
        return .more
    }

    private func next(after result: Int32) -> SecureProgress.Next {
        switch SSL_get_error(session, result) {
        case SSL_ERROR_WANT_READ: .receive
        case SSL_ERROR_ZERO_RETURN: .close(nil)
        default: .close(reason(of: TLSError("TLS failed")))
        }
    }

    private func reason(of error: TLSError) -> String {
        guard !isOpen else { return error.description }
        if case .server(let host) = proof, let flaw = TLSChannel.flaw(of: session, host) {
            return flaw
        }
        guard error.isPlainText else { return error.description }
        if case .server = proof { return "the port does not speak TLS: name the one with TLS" }
        return "it does not speak TLS on a port with TLS"
    }

    /// Why a server's certificate is refused; nil if it is not.
    private static func flaw(of session: OpaquePointer, _ host: String) -> String? {
        let code = Int32(SSL_get_verify_result(session))
        switch code {
        case X509_V_OK: return nil
        case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH:
            return "the server's certificate is not one of \(host): connect to a name that it has"
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
            X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT,
            X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, X509_V_ERR_CERT_SIGNATURE_FAILURE:
            return "no trusted CA has signed the server's certificate: trust the CA of the "
                + "cluster (GET /pools/default/certificate)"
        case X509_V_ERR_CERT_NOT_YET_VALID, X509_V_ERR_CERT_HAS_EXPIRED:
            let word = code == X509_V_ERR_CERT_HAS_EXPIRED ? "has expired" : "is not yet valid"
            return "the server's certificate \(word) by this machine's clock: compare the "
                + "clocks of both machines"
        default:
            let reason = String(cString: X509_verify_cert_error_string(Int(code)))
            return "the server's certificate is refused: \(reason)"
        }
    }

    /// Replaces the key before it has sealed as much as its limits allow; false if that fails.
    private func changeKey() -> Bool {
        guard keyUse.isUsedUp else { return true }
        keyUse = KeyUse(limits: keyUse.limits)
        // TLS 1.2 has no key update, and none of its other bounds is reached earlier.
        guard divan_ssl_is_tls13(session) != 0 else { return true }
        return SSL_key_update(session, SSL_KEY_UPDATE_NOT_REQUESTED) == 1
    }

    /// The Ed25519 key of the other side's certificate; nil if it has another kind of key.
    private static func key(of session: OpaquePointer) -> [UInt8]? {
        guard let certificate = SSL_get0_peer_certificate(session),
            let key = X509_get0_pubkey(certificate), EVP_PKEY_get_id(key) == EVP_PKEY_ED25519
        else { return nil }
        var bytes = [UInt8](repeating: 0, count: KeyPair.byteCount)
        var count = bytes.count
        guard EVP_PKEY_get_raw_public_key(key, &bytes, &count) == 1, count == bytes.count else {
            return nil
        }
        return bytes
    }

    // MARK: The BIO

    nonisolated(unsafe) private static let method: OpaquePointer = {  // tidy:allow never changed
        guard let method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "buffers")
        else {
            preconditionFailure("there is memory for a BIO method")
        }
        BIO_meth_set_read_ex(method) { bio, place, capacity, count in
            let channel = TLSChannel.of(bio)
            if let socket = channel.socket {
                return channel.read(
                    socket.descriptor,
                    bio,
                    into: place,
                    capacity: capacity,
                    counting: count
                )
            }
            let part = min(capacity, channel.input.count - channel.consumed)
            guard part > 0, let place else {
                divan_bio_set_retry_read(bio)
                return 0
            }
            divan_bio_clear_retry(bio)
            place.withMemoryRebound(to: UInt8.self, capacity: part) { bytes in
                UnsafeMutableRawPointer(bytes)
                    .copyMemory(from: channel.input.start + channel.consumed, byteCount: part)
            }
            channel.consumed += part
            count?.pointee = part
            return 1
        }
        BIO_meth_set_write_ex(method) { bio, bytes, length, count in
            guard let bytes, let output = TLSChannel.of(bio).output else { return 0 }
            divan_bio_clear_retry(bio)
            output.append(ByteView(start: UnsafeRawPointer(bytes), count: length))
            count?.pointee = length
            return 1
        }
        BIO_meth_set_ctrl(method) { bio, command, _, _ in
            if divan_bio_is_end_query(command) != 0 {
                return TLSChannel.of(bio).socket?.state == .ended ? 1 : 0
            }
            return Int(divan_bio_is_flush(command))
        }
        return method
    }()

    /// Whether the socket has only a part of a client's first record, which stays there.
    ///
    /// OpenSSL allocates its buffers when the handshake begins: a connection that sends less costs none.
    private func awaitsFirstRecord() -> Bool {
        guard let socket, let before = socket.firstBytes else { return false }
        let header = TLSChannel.recordHeaderBytes
        let isPart = withUnsafeTemporaryAllocation(
            byteCount: TLSChannel.firstBytesMax,
            alignment: 1
        ) { buffer in
            let count = recv(socket.descriptor, buffer.baseAddress, buffer.count, Int32(MSG_PEEK))
            // An event without a new byte is an end or an error, which OpenSSL then finds.
            guard count > before else { return false }
            self.socket?.firstBytes = count
            // The first byte of another protocol.
            guard buffer[0] == UInt8(SSL3_RT_HANDSHAKE) else { return false }
            guard count >= header else { return true }
            let length = Int(buffer[3]) << 8 | Int(buffer[4])
            return count < min(header + length, buffer.count)
        }
        if !isPart { self.socket?.firstBytes = nil }
        return isPart
    }

    /// Receives once for the BIO of a socket, unless this call has emptied the socket already.
    private func read(
        _ descriptor: Int32,
        _ bio: OpaquePointer?,
        into place: UnsafeMutablePointer<CChar>?,
        capacity: Int,
        counting count: UnsafeMutablePointer<Int>?
    ) -> Int32 {
        divan_bio_clear_retry(bio)
        while socket?.state == .readable {
            let received = recv(descriptor, place, capacity, 0)
            if received > 0 {
                if received < capacity { socket?.state = .drained }
                count?.pointee = received
                return 1
            }
            if received < 0, errno == EINTR { continue }
            let isDrained = received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)
            socket?.state = isDrained ? .drained : .ended
        }
        if socket?.state == .drained { divan_bio_set_retry_read(bio) }
        return 0
    }

    private static func of(_ bio: OpaquePointer?) -> TLSChannel {
        guard let data = BIO_get_data(bio) else { preconditionFailure("a BIO has its channel") }
        return Unmanaged<TLSChannel>.fromOpaque(data).takeUnretainedValue()
    }
}
