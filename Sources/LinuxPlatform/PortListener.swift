internal import Bytes
internal import CLinux
internal import Glibc
internal import Seams

/// A claimed port: accepts on one reactor and assigns each connection to the least busy reactor.
///
/// One listening socket, not one per reactor with SO_REUSEPORT: the kernel claims the port in one
/// step and exclusively (with the option any process of the same user could share the port), and
/// connections spread evenly. Measured with 50 connections hashed over 16 sockets, some reactors
/// had no connection and some had ten. Accepting is rare, so one reactor is enough.
final class PortListener: ReadinessTarget, @unchecked Sendable  // tidy:allow one reactor's thread
{
    typealias Accept = @Sendable (any ConnectionPort) -> any ConnectionHandler

    /// The claimed socket and the properties of its connections.
    struct Claim {
        let number: UInt64
        let descriptor: Int32
        /// The memory bound that the connections share; nil if they are exempt.
        let memory: ConnectionMemory?
        /// Secures the connections; nil for plain ones.
        let security: (any ClientSecurity)?
    }

    let number: UInt64
    private let descriptor: Int32
    private let memory: ConnectionMemory?
    private let security: (any ClientSecurity)?
    private let loop: Reactor
    private let reactors: [Reactor]
    private let accept: Accept
    private var slot: Int?
    private var warnedAt: UInt64?

    init(
        _ claim: Claim,
        loop: Reactor,
        reactors: [Reactor],
        accept: @escaping Accept
    ) {
        number = claim.number
        descriptor = claim.descriptor
        memory = claim.memory
        security = claim.security
        self.loop = loop
        self.reactors = reactors
        self.accept = accept
    }

    /// Claims a port and sets the options that accepted sockets inherit.
    ///
    /// - Throws: `NetworkError` if the address is invalid, in use or not allowed.
    static func claim(
        _ address: SocketAddress
    ) throws(NetworkError) -> (descriptor: Int32, address: SocketAddress) {
        var opened: Int32 = -1
        let code: Int32? = address.withSystemAddress { family, system, length in
            opened = divan_socket(family)
            guard opened >= 0 else { return errno }
            // After a crash, old connections in TIME_WAIT must not block the port.
            set(opened, SOL_SOCKET, option: SO_REUSEADDR, to: 1)
            if family == AF_INET6 { set(opened, Int32(IPPROTO_IPV6), option: IPV6_V6ONLY, to: 1) }
            setOptions(opened)
            if address.isLoopback { simplifyCongestionControl(opened) }
            guard bind(opened, system, length) == 0, Glibc.listen(opened, 4_096) == 0 else {
                return errno
            }
            return 0
        }
        guard let code else {
            throw NetworkError(
                code: .addressNotAvailable,
                description: "cannot listen on \(address): \"\(address.host)\" is not an IP "
                    + "address in digits; write 127.0.0.1 or 0.0.0.0, for example"
            )
        }
        guard code == 0, let local = SocketAddress.local(of: opened) else {
            if opened >= 0 { Glibc.close(opened) }
            throw SystemError.network(code == 0 ? errno : code, "listen on", at: address)
        }
        return (opened, local)
    }

    /// Selects the simplest congestion control for loopback, where nothing is congested.
    ///
    /// It avoids the timers that other algorithms set for every send. Errors are ignored, since a
    /// kernel may not offer it.
    private static func simplifyCongestionControl(_ descriptor: Int32) {
        let name = Array("reno".utf8)
        _ = setsockopt(
            descriptor,
            Int32(IPPROTO_TCP),
            TCP_CONGESTION,
            name,
            socklen_t(name.count)
        )
    }

    /// Sets the options of every connection; set on a listener, accepted sockets inherit them.
    static func setOptions(_ descriptor: Int32) {
        let tcp = Int32(IPPROTO_TCP)
        set(descriptor, tcp, option: TCP_NODELAY, to: 1)
        // The peer's machine may fail without closing the connection: probe after six idle minutes.
        set(descriptor, SOL_SOCKET, option: SO_KEEPALIVE, to: 1)
        set(descriptor, tcp, option: TCP_KEEPIDLE, to: 360)
        set(descriptor, tcp, option: TCP_KEEPINTVL, to: 10)
        set(descriptor, tcp, option: TCP_KEEPCNT, to: 3)
    }

    private static func set(_ descriptor: Int32, _ level: Int32, option: Int32, to value: Int32) {
        var value = value
        let size = socklen_t(MemoryLayout<Int32>.size)
        let code = setsockopt(descriptor, level, option, &value, size)
        precondition(code == 0, "socket option \(level)/\(option) was refused: error \(errno)")
    }

    // MARK: On the reactor

    func start() {
        slot = loop.watch(descriptor, events: divan_event_in, by: self)
        precondition(slot != nil, "the kernel has no memory left to watch a listening socket")
    }

    func stop() {
        guard let watched = slot else { return }
        slot = nil
        loop.unwatch(descriptor, slot: watched)
    }

    func abandon() { stop() }

    func ready(_ events: UInt32) {
        // Level-triggered: the kernel reports remaining connections again in the next turn.
        let descriptors = loop.limits.descriptors
        for _ in 0..<64 {
            guard descriptors.admits(use) else { return waitForDescriptors() }
            var connected: Int32 = -1
            let peer = SocketAddress.filled { address, length in
                connected = divan_accept(descriptor, address, length)
                return connected >= 0
            }
            if let peer {
                descriptors.opened(use)
                place(connected, peer)
                continue
            }
            switch errno {
            case EAGAIN, EWOULDBLOCK: return
            // This connection failed before it was accepted.
            case ECONNABORTED, EINTR, EPERM, EPROTO, ENETDOWN, ENETUNREACH, EHOSTUNREACH:
                continue
            default: return pause(after: errno)
            }
        }
    }

    private func place(_ connected: Int32, _ peer: SocketAddress) {
        guard let local = SocketAddress.local(of: connected) else {
            Glibc.close(connected)
            loop.limits.descriptors.closed(use)
            return
        }
        let socket = ConnectedSocket(
            descriptor: connected,
            peer: peer,
            local: local,
            listener: number,
            memory: memory,
            security: security
        )
        let target = Reactor.leastBusy(of: reactors)
        if target === loop {
            loop.adopt(socket, accept)
        } else {
            target.postAdoption(socket, accept)
        }
    }

    private var use: DescriptorPlan.Use { memory == nil ? .nodes : .clients }

    /// Leaves new connections in the kernel's queue while all descriptors are used or reserved.
    private func waitForDescriptors() {
        if let warning = loop.limits.descriptors.warning(of: use) {
            loop.trace.warning("network", warning)
        }
        pause(loop.limits.descriptorPauseNanoseconds)
    }

    /// Waits after an error of accept: the socket stays ready, so the loop would spin.
    private func pause(after code: Int32) {
        let now = LinuxClock.waitingNanoseconds()
        if warnedAt.map({ now - $0 > 10_000_000_000 }) ?? true {
            warnedAt = now
            loop.trace.warning(
                "network",
                "new connections wait: accept failed: \(SystemError.text(code)); "
                    + "if file descriptors run out, raise the limit of open files"
            )
        }
        pause(loop.limits.acceptPauseNanoseconds)
    }

    /// Stops watching the listening socket for a moment.
    private func pause(_ nanoseconds: UInt64) {
        guard let watched = slot else { return }
        loop.rewatch(descriptor, slot: watched, events: 0)
        loop.post(after: nanoseconds) {
            guard let watched = self.slot else { return }
            self.loop.rewatch(self.descriptor, slot: watched, events: divan_event_in)
        }
    }
}
