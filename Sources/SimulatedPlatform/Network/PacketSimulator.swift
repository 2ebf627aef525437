internal import Bytes
internal import Seams

/// The network of a world: ordered byte streams between hosts, with delays and faults.
///
/// Above this file there are no packets: as in TCP, bytes arrive in order or the connection ends.
/// The seed decides when they arrive, in which pieces, and whether.
///
/// - A blocked link loses nothing: it delays data until one end closes the connection.
/// - A connection attempt to a host without power hangs; without a listener it is refused.
package final class PacketSimulator {
    /// Timeout of a connection attempt, as in LinuxPlatform.
    static let connectNanoseconds: UInt64 = 10_000_000_000
    /// A peer that reads nothing for this long is disconnected, as in LinuxPlatform.
    static let slowReaderNanoseconds: UInt64 = 30_000_000_000

    let queue: RunQueue
    private(set) var random: SeededRandom
    /// Maximum bytes of a stream in flight or unread: the sender's and the receiver's buffers
    /// together.
    package var windowBytes = 256 << 10
    /// The addresses that each host name resolves to.
    package var names = ["localhost": ["127.0.0.1"]]
    private var hosts: [SimulatedHost] = []
    private var byAddress: [String: SimulatedHost] = [:]
    /// `links[i][j]` leads from host `i` to host `j`.
    private var links: [[NetworkLink]] = []
    private var ports: UInt16 = 32_768

    init(seed: UInt64, queue: RunQueue) {
        random = SeededRandom(seed: seed)
        self.queue = queue
    }

    func add(_ host: SimulatedHost) {
        hosts.append(host)
        byAddress[host.address] = host
        let last = hosts.count - 1
        for other in 0..<last { links[other].append(NetworkLink(isLocal: false)) }
        links.append((0...last).map { NetworkLink(isLocal: $0 == last) })
    }

    func dismantle() {
        for row in links {
            for link in row { _ = link.removeHeld() }
        }
        hosts = []
        byAddress = [:]
    }

    /// Allocates an ephemeral port.
    func freePort() -> UInt16 {
        ports = ports == 65_535 ? 32_768 : ports + 1
        return ports
    }

    func host(named address: String, seenFrom host: SimulatedHost) -> SimulatedHost? {
        SocketAddress(host: address, port: 0).isLoopback ? host : byAddress[address]
    }

    func link(from one: SimulatedHost, to other: SimulatedHost) -> NetworkLink {
        links[one.number][other.number]
    }

    func draw() -> UInt64 { random.next() }

    // MARK: Transport

    /// Runs `arrive` when `bytes` sent now reach the other end of a link, but not before `earliest`;
    /// returns that time.
    @discardableResult
    func carry(
        _ bytes: Int,
        on link: NetworkLink,
        after earliest: UInt64 = 0,
        _ arrive: @escaping () -> Void
    ) -> UInt64 {
        let arrival = max(link.arrival(bytes, now: queue.time.now, &random), earliest)
        add(at: arrival, on: link, arrive)
        return arrival
    }

    private func add(at arrival: UInt64, on link: NetworkLink, _ arrive: @escaping () -> Void) {
        queue.time.add(
            at: arrival,
            .happen { [queue] in
                if link.isBlocked || !link.held.isEmpty { return link.hold(arrive) }
                queue.fold(arrival)
                arrive()
            }
        )
    }

    /// Unblocks a link.
    ///
    /// Held data arrives in order, after a delay as of a TCP retransmission.
    private func unblock(_ link: NetworkLink) {
        link.isBlocked = false
        let held = link.removeHeld()
        guard !held.isEmpty else { return }
        let again = queue.time.now + 1_000_000 + random.next() % 400_000_000
        for arrive in held { link.hold(arrive) }
        queue.time.add(at: again, .happen { [self] in release(link) })
    }

    /// Delivers all held data, unless the link is blocked again.
    private func release(_ link: NetworkLink) {
        guard !link.isBlocked else { return }
        for arrive in link.removeHeld() { arrive() }
    }

    // MARK: Faults

    func apply(_ fault: Fault) {
        switch fault {
        case .split(let groups): split(groups)
        case .oneWay(let from, let to):
            forLink(from, to) { $0.isBlocked = true }
        case .clog(let from, let to, let nanoseconds):
            forLink(from, to) { $0.cloggedUntil = queue.time.now + nanoseconds }
        case .slow(let from, let to, let nanoseconds):
            forLink(from, to) { $0.extraDelay = nanoseconds }
        case .cutConnections(let one, let other): cut(one, other)
        case .refuseConnects(let name): byAddress[name]?.refusesConnects = true
        case .hangConnects(let name): byAddress[name]?.hangsConnects = true
        case .healNetwork: heal()
        default: break  // Not a network fault.
        }
    }

    private func forLink(_ from: String, _ to: String, change: (NetworkLink) -> Void) {
        guard let from = byAddress[from], let to = byAddress[to] else { return }
        change(link(from: from, to: to))
    }

    private func split(_ groups: [[String]]) {
        var group: [Int?] = Array(repeating: nil, count: hosts.count)
        for (number, names) in groups.enumerated() {
            for name in names { byAddress[name].map { group[$0.number] = number } }
        }
        for one in hosts {
            for other in hosts where one !== other {
                guard let its = group[one.number], let others = group[other.number] else {
                    continue
                }
                let link = link(from: one, to: other)
                if its != others {
                    link.isBlocked = true
                } else if link.isBlocked {
                    unblock(link)
                }
            }
        }
    }

    private func heal() {
        for row in links {
            for link in row {
                link.extraDelay = 0
                link.cloggedUntil = 0
                if link.isBlocked { unblock(link) }
            }
        }
        for host in hosts {
            host.refusesConnects = false
            host.hangsConnects = false
        }
    }

    private func cut(_ one: String, _ other: String) {
        guard let host = byAddress[one], let process = host.process else { return }
        for connection in process.openConnections where connection.otherHost?.address == other {
            connection.cut()
        }
    }
}
