internal import Bytes
internal import Glibc
internal import Seams

/// Resolves host names on separate threads, since the C library blocks for up to half a minute.
///
/// - At most `threadsMax` look-ups run and `waitingMax` wait; further ones are refused.
/// - A thread exists while look-ups wait. It is never joined: a name server that does not answer
///   must not delay a shutdown.
final class Resolver: Sendable {
    typealias Done = @Sendable (Result<[String], NetworkError>) -> Void

    private struct State {
        var threads = 0
        var waiting: [(host: String, done: Done)] = []
    }

    private static let threadsMax = 4
    private static let waitingMax = 256

    private let state = Guarded(State())

    func resolve(_ host: String, _ done: @escaping Done) {
        if SocketAddress(host: host, port: 0).withSystemAddress({ _, _, _ in true }) ?? false {
            return done(.success([host]))
        }
        guard Resolver.isName(host) else {
            return done(.failure(Resolver.error(host, "it is not a valid host name")))
        }
        let (isAccepted, needsThread) = state.withLock { state in
            guard state.waiting.count < Resolver.waitingMax else { return (false, false) }
            state.waiting.append((host, done))
            let needsThread = state.threads < Resolver.threadsMax
            if needsThread { state.threads += 1 }
            return (true, needsThread)
        }
        guard isAccepted else {
            return done(.failure(Resolver.error(host, "too many look-ups are waiting")))
        }
        guard needsThread else { return }
        if let thread = SystemThread(ifPossible: "resolver", { self.run() }) {
            thread.detach()
        } else {
            threadRefused()
        }
    }

    /// Fails what waits, unless another thread looks it up.
    private func threadRefused() {
        let failed = state.withLock { state in
            state.threads -= 1
            guard state.threads == 0 else { return [(host: String, done: Done)]() }
            return exchange(&state.waiting, with: [])
        }
        let reason = "the system refused a thread: \(SystemThread.cure)"
        for (host, done) in failed { done(.failure(Resolver.error(host, reason))) }
    }

    private func run() {
        while true {
            let next = state.withLock { state in
                if state.waiting.isEmpty {
                    state.threads -= 1
                    return (host: String, done: Done)?.none
                }
                return state.waiting.removeFirst()
            }
            guard let next else { return }
            next.done(Resolver.lookUp(next.host))
        }
    }

    /// Whether the text is a host name (RFC 1123); underscores are allowed for container networks.
    private static func isName(_ host: String) -> Bool {
        let bytes = Array(host.utf8)
        return !bytes.isEmpty && bytes.count <= 253
            && bytes.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"):
                    true
                default:
                    byte == UInt8(ascii: "-") || byte == UInt8(ascii: ".")
                        || byte == UInt8(ascii: "_")
                }
            }
    }

    private static func lookUp(_ host: String) -> Result<[String], NetworkError> {
        var hints = addrinfo()
        hints.ai_family = AF_UNSPEC
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        var first: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(host, nil, &hints, &first)
        defer { if let first { freeaddrinfo(first) } }
        guard code == 0 else {
            let reason = code == EAI_SYSTEM ? SystemError.text(errno) : text(code)
            return .failure(error(host, reason))
        }
        var addresses: [String] = []
        var next = first
        while let entry = next?.pointee {
            let address = SocketAddress.filled { target, length in
                guard let found = entry.ai_addr, entry.ai_addrlen <= length.pointee else {
                    return false
                }
                Memory.copy(to: target, from: found, count: Int(entry.ai_addrlen))
                length.pointee = entry.ai_addrlen
                return true
            }
            if let address, !addresses.contains(address.host) { addresses.append(address.host) }
            next = entry.ai_next
        }
        guard !addresses.isEmpty else { return .failure(error(host, "it has no address")) }
        return .success(addresses)
    }

    private static func text(_ code: Int32) -> String {
        guard let text = gai_strerror(code) else { return "error \(code)" }
        return String(cString: text)
    }

    private static func error(_ host: String, _ reason: String) -> NetworkError {
        let shown = String(host.prefix(253))
        return NetworkError(
            code: .unknownHost,
            description: "cannot find the host \"\(shown)\": \(reason); check the name, or use "
                + "an IP address"
        )
    }
}
