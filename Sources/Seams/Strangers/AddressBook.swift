/// The logins by client address that a node remembers: refused logins and right ones.
///
/// - Both tables are bounded, and separate, so that refusals from many addresses do not make the node
///   forget where its clients are.
/// - Networks of IPv6 count as one address each: a client has 2^64 of them.
package struct AddressBook: Sendable {
    /// Refusals before logins from an address wait: typing errors, and a client with an old password.
    package static let freeRefusals = 5
    /// The longest wait: clients time out after 2.5 s.
    package static let delayNanosecondsMax: UInt64 = 1_000_000_000
    private static let firstDelayNanoseconds: UInt64 = 100_000_000
    /// Refusals are forgotten so long after the last one.
    package static let refusalsNanoseconds: UInt64 = 60_000_000_000
    /// A login counts for so long.
    package static let loginNanoseconds: UInt64 = 3_600_000_000_000
    /// Addresses in each table: some hundred bytes each.
    package static let addressesMax = 4_096
    /// Names that are remembered of an address.
    private static let namesMax = 8

    private struct Refusals {
        var count: Int
        var last: UInt64
    }

    private struct Logins {
        /// The latest last.
        var names: [String]
        var last: UInt64
    }

    private var refusals: [String: Refusals] = [:]
    private var logins: [String: Logins] = [:]
    /// Addresses of the cluster's nodes.
    package var members: Set<String> = []

    package init() {}

    package var count: (refusals: Int, logins: Int) { (refusals.count, logins.count) }

    /// Records a refused login.
    package mutating func recordRefusal(_ address: String, at now: UInt64) {
        let count = current(refusals[address], now)
        makeRoom(&refusals, for: address) { $0.last }
        refusals[address] = Refusals(count: count + 1, last: now)
    }

    /// Records a right login of a name.
    package mutating func recordLogin(_ address: String, _ name: String, at now: UInt64) {
        var names = logins[address]?.names.filter { $0 != name } ?? []
        if names.count == Self.namesMax { names.removeFirst() }
        makeRoom(&logins, for: address) { $0.last }
        logins[address] = Logins(names: names + [name], last: now)
    }

    /// Whether the address is a member's, or had a right login within the last hour.
    package func isKnown(_ address: String, at now: UInt64) -> Bool {
        members.contains(address)
            || logins[address].map { now < $0.last &+ Self.loginNanoseconds } ?? false
    }

    /// Whether the name logged in from the address within the last hour.
    package func isKnown(_ address: String, _ name: String, at now: UInt64) -> Bool {
        guard let known = logins[address], known.names.contains(name) else { return false }
        return now < known.last &+ Self.loginNanoseconds
    }

    /// How long a login from the address waits before it is looked at.
    package func delayNanoseconds(_ address: String, at now: UInt64) -> UInt64 {
        let count = current(refusals[address], now)
        guard count >= Self.freeRefusals else { return 0 }
        let doublings = min(count / Self.freeRefusals - 1, 8)
        return min(Self.firstDelayNanoseconds << UInt64(doublings), Self.delayNanosecondsMax)
    }

    private func current(_ refusals: Refusals?, _ now: UInt64) -> Int {
        guard let refusals, now < refusals.last &+ Self.refusalsNanoseconds else { return 0 }
        return refusals.count
    }

    /// Removes the older half of a full table: each removal then costs little.
    private func makeRoom<Entry>(
        _ table: inout [String: Entry],
        for address: String,
        _ last: (Entry) -> UInt64
    ) {
        guard table.count >= Self.addressesMax, table[address] == nil else { return }
        let times = table.values.map(last).sorted()
        let middle = times[times.count / 2]
        table = table.filter { last($0.value) > middle }
    }

    /// The text under which an address is remembered: IPv4 as it is, of IPv6 the first 64 bits.
    package static func key(_ host: String) -> String {
        let mapped = "::ffff:"
        if host.hasPrefix(mapped), host.contains(".") {
            return String(host.dropFirst(mapped.count))
        }
        guard host.contains(":") else { return host }
        let text = host.prefix { $0 != "%" }
        let halves = text.split(separator: "::", omittingEmptySubsequences: false)
        let head = halves[0].split(separator: ":").map { String($0).lowercased() }
        let tail = halves.count > 1 ? halves[1].split(separator: ":") : []
        let zeros = halves.count > 1 ? max(0, 8 - head.count - tail.count) : 0
        let groups =
            head + Array(repeating: "0", count: zeros) + tail.map { String($0).lowercased() }
        return groups.prefix(4).joined(separator: ":") + "::/64"
    }
}
