internal import Bytes
internal import CLinux
internal import Glibc
internal import Seams
internal import Synchronization

/// A connection that is being opened; it ends as a `SocketConnection` or with an error.
final class OutgoingSocket: ReadinessTarget, @unchecked Sendable  // tidy:allow one reactor's thread
{
    typealias Failed = @Sendable (NetworkError) -> Void

    private let address: SocketAddress
    private let loop: Reactor
    private let connected: Reactor.MakeHandler
    private let failed: Failed
    private var descriptor: Int32 = -1
    private var slot: Int?
    private var timer: LaneTimer?

    init(
        to address: SocketAddress,
        loop: Reactor,
        connected: @escaping Reactor.MakeHandler,
        failed: @escaping Failed
    ) {
        self.address = address
        self.loop = loop
        self.connected = connected
        self.failed = failed
    }

    /// Begins to connect; on the reactor's thread.
    func start() {
        let code: Int32? = address.withSystemAddress { family, system, length in
            descriptor = divan_socket(family)
            guard descriptor >= 0 else { return errno }
            loop.limits.descriptors.opened(.nodes)
            PortListener.setOptions(descriptor)
            return connect(descriptor, system, length) == 0 ? 0 : errno
        }
        guard let code else {
            let description =
                "cannot connect to \(address): \"\(address.host)\" is not an IP address in digits"
            return fail(NetworkError(code: .addressNotAvailable, description: description))
        }
        guard code == 0 || code == EINPROGRESS else { return fail(code) }
        slot = loop.watch(descriptor, events: SocketConnection.events, by: self)
        guard slot != nil else { return fail(ENOMEM) }
        timer = loop.post(after: loop.limits.connectNanoseconds) {
            if self.slot != nil { self.fail(ETIMEDOUT) }
        }
    }

    func ready(_ events: UInt32) {
        var code: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        guard getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &code, &length) == 0, code == 0 else {
            return fail(code == 0 ? errno : code)
        }
        let isOpen = events & divan_event_out != 0 && events & divan_event_hang_up == 0
        guard isOpen, let watched = slot else { return }
        guard let local = SocketAddress.local(of: descriptor) else { return fail(errno) }
        slot = nil
        timer?.cancel()
        let socket = ConnectedSocket(
            descriptor: descriptor,
            peer: address,
            local: local,
            listener: 0,
            memory: nil
        )
        let connection = SocketConnection(socket, loop: loop)
        loop.setTarget(ofSlot: watched, connection)
        connection.start(slot: watched, connected(connection))
        // The event that reported the opening may have reported the first bytes too.
        connection.ready(events)
    }

    func abandon() { if slot != nil { fail(ECANCELED) } }

    private func fail(_ code: Int32) {
        fail(SystemError.network(code, "connect to", at: address))
    }

    private func fail(_ error: NetworkError) {
        timer?.cancel()
        if descriptor >= 0 { loop.limits.descriptors.closed(.nodes) }
        if let watched = slot {
            slot = nil
            loop.unwatch(descriptor, slot: watched)
        } else if descriptor >= 0 {
            Glibc.close(descriptor)
        }
        loop.load.subtract(1, ordering: .relaxed)
        failed(error)
    }
}
