/// A bounded number of connections, and which one ends for a new one if there are too many.
///
/// - The oldest connection of the address with the most of them ends. So many connections of one
///   address do not end those of another one.
/// - Addresses that the caller prefers come last, and not never: they may be the attacker's, too.
package struct StrangerTable: Sendable {
    package var connectionsMax: Int
    /// By address, oldest first.
    private var numbers: [String: [UInt64]] = [:]
    private var entries: [UInt64: (address: String, time: UInt64)] = [:]

    package init(connectionsMax: Int) {
        precondition(connectionsMax > 0, "a table without room would end every connection")
        self.connectionsMax = connectionsMax
    }

    package var count: Int { entries.count }

    /// Adds a connection.
    ///
    /// - Parameters:
    ///   - number: A number that no other connection has.
    ///   - address: As of `AddressBook.key`.
    ///   - now: The time of entry.
    ///   - isPreferred: Whether connections of an address come last.
    /// - Returns: The connection that has to end, which is no longer in the table; nil if there is
    ///   room.
    package mutating func enter(
        _ number: UInt64,
        from address: String,
        at now: UInt64,
        isPreferred: (String) -> Bool
    ) -> UInt64? {
        let ending = count < connectionsMax ? nil : removeOne(isPreferred: isPreferred)
        entries[number] = (address, now)
        numbers[address, default: []].append(number)
        return ending
    }

    /// Removes a connection; no effect if it is not in the table.
    package mutating func leave(_ number: UInt64) {
        guard let address = entries.removeValue(forKey: number)?.address,
            var rest = numbers.removeValue(forKey: address)
        else { return }
        rest.removeAll { $0 == number }
        if !rest.isEmpty { numbers[address] = rest }
    }

    package func contains(_ number: UInt64) -> Bool { entries[number] != nil }

    /// The connections that entered at or before a time.
    package func entered(by time: UInt64) -> [UInt64] {
        entries.filter { $0.value.time <= time }.map(\.key)
    }

    /// Removes the connection that has to end next; nil if there is none.
    package mutating func removeOne(isPreferred: (String) -> Bool) -> UInt64? {
        let chosen = choose(isPreferred)
        if let chosen { leave(chosen) }
        return chosen
    }

    private func choose(_ isPreferred: (String) -> Bool) -> UInt64? {
        let groups = numbers.map { (isPreferred: isPreferred($0), oldest: $1[0], count: $1.count) }
        let chosen = groups.max { one, other in
            if one.isPreferred != other.isPreferred { return one.isPreferred }
            // Of addresses with equally many, the one with the oldest connection.
            return (one.count, other.oldest) < (other.count, one.oldest)
        }
        return chosen?.oldest
    }
}
