internal import Bytes

/// The clients of one node that have not logged in, on all ports where clients log in.
///
/// `StrangerTable`, `AddressBook` and `RefusalLog` decide; this shares them among the ports. A
/// connection enters when it is accepted, and leaves with its first right login or its end.
/// `endOverdue`, which the node calls each second, ends it after `lifeNanoseconds`.
package final class LoginWatch: Sendable {
    /// How long a connection may be without a login: as long as its first HTTP request may take.
    package static let lifeNanoseconds: UInt64 = 15_000_000_000
    /// Bytes of input that a connection without a login may have: HELLO and a login fit many times.
    package static let inputBytesMax = 4 << 10
    /// Bytes of a frame's header.
    static let headerBytes = 24
    /// The most connections without a login; each has a little more than 4 KiB, so all have a few megabytes.
    package static let connectionsMax = 1_024
    /// Connections of guests: clients of a bucket that needs no password.
    package static let guestsMax = 1_024
    /// Refused logins after which a connection is closed.
    package static let refusalsMax = 5

    /// For statistics.
    package struct Usage: Sendable {
        package let strangerCount: Int
        package let guestCount: Int
        /// Since the start: connections that were closed because they had no login, and refused logins.
        package let endedCount: UInt64
        package let refusedCount: UInt64
    }

    /// A connection's number, from 1.
    package typealias Number = UInt64

    fileprivate struct State {
        var numbers: Number = 0
        var strangers: StrangerTable
        var guests: StrangerTable
        var book = AddressBook()
        var log = RefusalLog()
        var ends: [Number: @Sendable () -> Void] = [:]
        var endedCount: UInt64 = 0
        var refusedCount: UInt64 = 0
    }

    private let state: Guarded<State>

    /// No clients yet; a process with few descriptors has lower bounds, so that each port has room.
    package init(within plan: DescriptorPlan = Descriptors.unlimited.plan) {
        let most = min(LoginWatch.connectionsMax, plan.withoutLoginMax)
        let guestsMax = min(LoginWatch.guestsMax, plan.part(of: .clients))
        state = Guarded(
            State(
                strangers: StrangerTable(connectionsMax: most),
                guests: StrangerTable(connectionsMax: guestsMax)
            )
        )
    }

    package var usage: Usage {
        state.withLock { state in
            Usage(
                strangerCount: state.strangers.count,
                guestCount: state.guests.count,
                endedCount: state.endedCount,
                refusedCount: state.refusedCount
            )
        }
    }

    /// Sets the addresses of the cluster's nodes; names among them have no effect.
    package func setMembers(_ hosts: [String]) {
        let members = Set(hosts.map(AddressBook.key))
        state.withLock { $0.book.members = members }
    }

    // MARK: Connections

    /// Adds an accepted connection; another one may have to end for it.
    ///
    /// - Parameters:
    ///   - host: The client's address.
    ///   - now: Monotonic nanoseconds.
    ///   - end: Closes the connection; called from any thread, at most once.
    /// - Returns: Its number, for the other calls.
    package func enter(
        from host: String,
        at now: UInt64,
        end: @escaping @Sendable () -> Void
    ) -> Number {
        let address = AddressBook.key(host)
        let (number, ending) = state.withLock { state in
            state.numbers += 1
            let number = state.numbers
            state.ends[number] = end
            let book = state.book
            let ending = state.strangers.enter(number, from: address, at: now) {
                book.isKnown($0, at: now)
            }
            return (number, state.removeEnd(of: ending))
        }
        ending?()
        return number
    }

    /// The connection has ended; no effect if it was removed before.
    package func leave(_ number: Number) {
        state.withLock { state in
            state.strangers.leave(number)
            state.guests.leave(number)
            state.ends[number] = nil
        }
    }

    /// The connection's client has logged in: the connection counts no longer.
    package func recordLogin(_ number: Number, of name: String, from host: String, at now: UInt64) {
        leave(number)
        let address = AddressBook.key(host)
        state.withLock { $0.book.recordLogin(address, name, at: now) }
    }

    /// The connection's client uses a bucket that needs no password.
    package func recordGuest(_ number: Number, from host: String, at now: UInt64) {
        let address = AddressBook.key(host)
        let ending = state.withLock { state -> (@Sendable () -> Void)? in
            guard state.strangers.contains(number) else { return nil }
            state.strangers.leave(number)
            let book = state.book
            let ending = state.guests.enter(number, from: address, at: now) {
                book.isKnown($0, at: now)
            }
            return state.removeEnd(of: ending)
        }
        ending?()
    }

    /// Ends the connections that were accepted too long ago and have no login.
    package func endOverdue(at now: UInt64) {
        guard now >= Self.lifeNanoseconds else { return }
        let ends = state.withLock { state in
            state.strangers.entered(by: now - Self.lifeNanoseconds).compactMap { number in
                state.strangers.leave(number)
                return state.removeEnd(of: number)
            }
        }
        for end in ends { end() }
    }

    // MARK: Logins

    /// How long a login from an address waits before it is looked at; 0 in most cases.
    package func delayNanoseconds(from host: String, at now: UInt64) -> UInt64 {
        let address = AddressBook.key(host)
        return state.withLock { $0.book.delayNanoseconds(address, at: now) }
    }

    /// Whether the name logged in from this address within the last hour.
    package func isKnown(_ name: String, from host: String, at now: UInt64) -> Bool {
        let address = AddressBook.key(host)
        return state.withLock { $0.book.isKnown(address, name, at: now) }
    }

    /// Records a refused login.
    ///
    /// - Returns: The line to log; nil for most of many refusals.
    package func recordRefusal(_ user: String, from host: String, at now: UInt64) -> String? {
        let address = AddressBook.key(host)
        return state.withLock { state in
            state.refusedCount += 1
            state.book.recordRefusal(address, at: now)
            return state.log.line(user, host, at: now)
        }
    }
}

extension LoginWatch.State {
    fileprivate mutating func removeEnd(of number: LoginWatch.Number?) -> (@Sendable () -> Void)? {
        guard let number else { return nil }
        endedCount += 1
        return ends.removeValue(forKey: number)
    }
}
