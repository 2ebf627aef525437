import Bytes
import Glibc
import OpenSSLPlatform
import Seams
import Testing

/// Clients and servers of TLS: which servers a client believes, and records that arrive in parts.
@Suite struct TLSClientTests {
    private static let tools = OpenSSLCertificates()
    private static let day: Int64 = 86_400

    private static func authority(_ byte: UInt8) throws -> CertificateAuthority {
        let seed = [UInt8](repeating: byte, count: CertificateAuthority.seedByteCount)
        return CertificateAuthority(
            certificate: try tools.makeAuthority(seed: seed, name: "Authority \(byte)"),
            seed: seed
        )
    }

    private static func crossCertificate(
        of byte: UInt8,
        signedBy signer: CertificateAuthority
    ) throws -> [UInt8] {
        let seed = [UInt8](repeating: byte, count: CertificateAuthority.seedByteCount)
        return try tools.makeAuthority(seed: seed, name: "Authority \(byte)", signedBy: signer)
    }

    private static func server(
        _ hosts: [String],
        by authority: CertificateAuthority,
        from begin: Int64 = -day,
        to end: Int64 = day,
        followedBy chain: [UInt8] = []
    ) throws -> any ClientSecurity {
        let now = Int64(time(nil))
        let issued = try tools.issue(
            CertificateRequest(
                commonName: "node",
                hosts: hosts,
                notBefore: now + begin,
                notAfter: now + end
            ),
            by: authority
        )
        let server = tools.makeServer()
        try server.use(ClientSecuritySettings(chain: issued.certificate + chain, key: issued.key))
        return server
    }

    /// One side without a socket, and what it has received.
    private final class Side {
        let channel: any SecureChannel
        let content = ByteWriter()
        let output = ByteWriter()
        var input: [UInt8] = []
        var isClosed = false
        var reason: String?

        init(_ channel: any SecureChannel) { self.channel = channel }

        func receive(_ bytes: [UInt8]) -> [UInt8] {
            input += bytes
            while !isClosed {
                let progress = input.withUnsafeBytes {
                    channel.receive(ByteView($0), content: content, output: output)
                }
                input.removeFirst(progress.consumed)
                if case .close(let why) = progress.next {
                    (isClosed, reason) = (true, why)
                }
                guard case .more = progress.next else { break }
            }
            return take()
        }

        func send(_ bytes: [UInt8]) -> [UInt8] {
            #expect(bytes.withUnsafeBytes { channel.send(ByteView($0), output: output) })
            return take()
        }

        func take() -> [UInt8] {
            defer { output.removeAll() }
            return output.bytes
        }
    }

    /// Lets both sides talk until neither has more to say.
    private static func shakeHands(_ client: Side, _ server: Side) {
        var toServer = client.receive([])
        while !toServer.isEmpty { toServer = client.receive(server.receive(toServer)) }
    }

    /// Why a client refuses a server; nil if it does not.
    private static func refusal(
        of server: any ClientSecurity,
        as host: String,
        trusting authority: CertificateAuthority
    ) throws -> String? {
        let trust = try TLSClient(authorities: authority.certificate)
        let client = Side(trust.makeChannel(host: host))
        let served = Side(server.makeChannel())
        shakeHands(client, served)
        #expect(client.channel.isOpen == !client.isClosed)
        #expect(client.channel.peerKey == nil)
        if client.channel.isOpen {
            #expect(served.receive(client.send([1, 2])).isEmpty && served.content.bytes == [1, 2])
            #expect(client.receive(served.send([3])).isEmpty && client.content.bytes == [3])
        }
        return client.reason
    }

    @Test(arguments: ["10.0.0.1", "::1", "node.example", "a.nodes.example"])
    func serverOfTrustedAuthorityIsAcceptedUnderItsNames(host: String) throws {
        let authority = try Self.authority(1)
        let names = ["10.0.0.1", "::1", "node.example", "*.nodes.example"]
        let server = try Self.server(names, by: authority)
        #expect(try Self.refusal(of: server, as: host, trusting: authority) == nil)
    }

    @Test(arguments: ["10.0.0.2", "::2", "other.example", "example", "nodes.example"])
    func serverWithAnotherNameIsRefusedWithTheName(host: String) throws {
        let authority = try Self.authority(1)
        let server = try Self.server(
            ["10.0.0.1", "node.example", "*.nodes.example"],
            by: authority
        )
        let reason = try Self.refusal(of: server, as: host, trusting: authority)
        #expect(reason?.contains("is not one of \(host): ") == true, "\(reason ?? "believed")")
    }

    @Test func serverOfAnotherAuthorityIsRefused() throws {
        let server = try Self.server(["10.0.0.1"], by: try Self.authority(1))
        let reason = try Self.refusal(of: server, as: "10.0.0.1", trusting: try Self.authority(2))
        #expect(reason?.contains("trust the CA of the cluster") == true, "\(reason ?? "believed")")
    }

    /// Clients that trust a former authority, the newest one, and one before both.
    @Test func crossCertificatesOfFormerAuthoritiesAuthenticateServerOfNewAuthority() throws {
        let (first, second, third) = (
            try Self.authority(1), try Self.authority(2), try Self.authority(3)
        )
        let cross = try Self.crossCertificate(of: 3, signedBy: second)
        let older = try Self.crossCertificate(of: 2, signedBy: first)
        for (chain, believers) in [([], 1), (cross, 2), (cross + older, 3)] {
            let server = try Self.server(["10.0.0.1"], by: third, followedBy: chain)
            for (place, authority) in [third, second, first].enumerated() {
                let reason = try Self.refusal(of: server, as: "10.0.0.1", trusting: authority)
                #expect((reason == nil) == (place < believers), "\(place): \(reason ?? "believed")")
            }
        }
        let other = try Self.crossCertificate(of: 3, signedBy: try Self.authority(4))
        let server = try Self.server(["10.0.0.1"], by: third, followedBy: other)
        #expect(try Self.refusal(of: server, as: "10.0.0.1", trusting: second) != nil)
        #expect(try Self.tools.read(cross).first?.isAuthority == true)
    }

    /// An authority of the same name whose key another seed has made.
    @Test func forgedAuthorityIsRefused() throws {
        let known = try Self.authority(1)
        let forger = CertificateAuthority(
            certificate: known.certificate,
            seed: try Self.authority(2).seed
        )
        let server = try Self.server(["10.0.0.1"], by: forger)
        #expect(try Self.refusal(of: server, as: "10.0.0.1", trusting: known) != nil)
    }

    @Test func serverOutsideTheTimeOfItsCertificateIsRefused() throws {
        let authority = try Self.authority(1)
        let (day, year) = (Self.day, 365 * Self.day)
        for (begin, end, word) in [
            (-2 * day, -day, "expired"), (-11 * year, -10 * year, "expired"),
            (day, 2 * day, "not yet valid"), (10 * year, 11 * year, "not yet valid"),
        ] {
            let server = try Self.server(["10.0.0.1"], by: authority, from: begin, to: end)
            let reason = try Self.refusal(of: server, as: "10.0.0.1", trusting: authority)
            #expect(reason?.contains(word) == true, "\(begin): \(reason ?? "believed")")
        }
    }

    @Test func serverWithoutTLSIsRefusedWithTheCure() throws {
        let trust = try TLSClient(authorities: try Self.authority(1).certificate)
        let client = Side(trust.makeChannel(host: "10.0.0.1"))
        _ = client.receive([])
        _ = client.receive([0x81, 0x0b] + [UInt8](repeating: 0, count: 30))
        #expect(client.reason == "the port does not speak TLS: name the one with TLS")
    }

    @Test func textWithoutCertificateIsRefusedAsAuthorities() {
        #expect(throws: TLSError.self) { try TLSClient(authorities: []) }
        #expect(throws: TLSError.self) { try TLSClient(authorities: Array("text".utf8)) }
    }

    // MARK: Sockets

    /// A server's end of a socket pair, which receives from the socket itself.
    private final class ServedSocket {
        let own: Int32
        let other: Int32
        let socket: any SecureSocket
        let output = ByteWriter()
        var content: [UInt8] = []
        var end: SecureReceipt?

        init(_ server: any ClientSecurity) {
            var ends: [Int32] = [0, 0]
            let kind = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue)
            precondition(socketpair(AF_UNIX, kind, 0, &ends) == 0, "no sockets: error \(errno)")
            (own, other) = (ends[0], ends[1])
            socket = server.makeSocket(own)
        }

        deinit {
            close(own)
            close(other)
        }

        /// Receives all that has arrived, at most `most` bytes at a time; returns what is to be sent.
        func receive(most: Int) -> [UInt8] {
            var place = [UInt8](repeating: 0, count: most)
            while end == nil {
                let receipt = place.withUnsafeMutableBytes { buffer in
                    guard let start = buffer.baseAddress else { return SecureReceipt.wait }
                    return socket.receive(into: start, most: most, output: output)
                }
                switch receipt {
                case .content(let count, let hasMore):
                    #expect(count > 0 && count <= most)
                    content += place.prefix(count)
                    if hasMore { continue }
                case .wait: break
                case .end: end = receipt
                }
                break
            }
            defer { output.removeAll() }
            return output.bytes
        }

        func write(_ bytes: ArraySlice<UInt8>) {
            let count = bytes.withUnsafeBytes { Glibc.write(other, $0.baseAddress, $0.count) }
            #expect(count == bytes.count)
        }
    }

    /// A client whose bytes reach a server's socket in two parts, cut at each place of the handshake and of
    /// the first records.
    @Test(arguments: [1, 3, 1_000])
    func socketReceivesRecordsThatAreCutAtAnyByte(most: Int) throws {
        let authority = try Self.authority(1)
        let server = try Self.server(["10.0.0.1"], by: authority)
        let trust = try TLSClient(authorities: authority.certificate)
        let message = Array("content of two records, ".utf8)
        var (cut, length) = (0, 1)
        while cut < length {
            let served = ServedSocket(server)
            let client = Side(trust.makeChannel(host: "10.0.0.1"))
            var (sent, toServer) = (0, client.receive([]))
            var hasSent = false
            while !toServer.isEmpty {
                let place = min(max(cut - sent, 0), toServer.count)
                served.write(toServer[..<place])
                var answer = served.receive(most: most)
                served.write(toServer[place...])
                answer += served.receive(most: most)
                sent += toServer.count
                toServer = client.receive(answer)
                if client.channel.isOpen, !hasSent {
                    hasSent = true
                    toServer += client.send(message) + client.send(message)
                }
            }
            #expect(served.content == message + message, "\(cut)")
            #expect(served.end == nil && served.socket.isOpen, "\(cut)")
            length = sent
            cut += 7
        }
        #expect(length > 300)
    }

    @Test func socketWhoseClientEndsWithinARecordEndsWithoutItsContent() throws {
        let authority = try Self.authority(1)
        let server = try Self.server(["10.0.0.1"], by: authority)
        let trust = try TLSClient(authorities: authority.certificate)
        for missing in [0, 1, 10] {
            let served = ServedSocket(server)
            let client = Side(trust.makeChannel(host: "10.0.0.1"))
            var toServer = client.receive([])
            while !toServer.isEmpty {
                served.write(toServer[...])
                toServer = client.receive(served.receive(most: 100))
            }
            let record = client.send([1, 2, 3])
            served.write(record.dropLast(missing))
            shutdown(served.other, Int32(SHUT_WR))
            _ = served.receive(most: 100)
            _ = served.receive(most: 100)
            #expect(served.content == (missing == 0 ? [1, 2, 3] : []), "\(missing)")
            #expect(served.end == .end(nil), "\(missing)")
        }
    }
}
