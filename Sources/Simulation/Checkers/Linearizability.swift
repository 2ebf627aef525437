/// Whether there is an order of the operations on one document that respects time and explains
/// every result.
///
/// Wing and Gong's search as Lowe does it: events in order of time, and beside them the set of all
/// worlds that are possible (`World`: a state, and which of the operations under way have had their
/// effect). When an operation returns, worlds in which it cannot have happened by then are gone; when
/// none is left, there is no order. Two ways to the same world are one world, which is the memo, and
/// at a quiet point worlds are no more than states.
///
/// - An operation of unknown outcome never returns: it may have its effect at any time after its
///   call, or never.
/// - Each of those doubles the worlds. At the ninth the document is *retired*: what came before is
///   checked, what comes later is not.
package struct Linearizability: Sendable {
    package enum Verdict: Hashable, Sendable {
        /// `checked`: operations that returned before the document was retired.
        case explained(checked: Int)
        /// No world is left at the return of this one; some states that were possible before.
        case impossible(RegisterOperation, states: [[UInt8]?])
        /// More worlds than anybody looks at: nothing is known from here on.
        case tooMany(checked: Int)
    }

    static let unknownsMax = 8
    static let worldsMax = 200_000

    private struct World: Hashable {
        var state: [UInt8]?
        /// Bit i: the operation in slot i had its effect.
        var done: UInt64 = 0
    }

    private var worlds: Set<World>
    /// Operations under way; a slot is taken anew when its operation has returned.
    private var slots: [RegisterOperation?] = []

    private init(initial: [UInt8]?) {
        worlds = [World(state: initial)]
    }

    // MARK: Checking

    /// `operations` come in any order, and those that were refused not at all; `initial` was there
    /// before the first.
    package static func check(
        _ operations: [RegisterOperation],
        initial: [UInt8]? = nil
    ) -> Verdict {
        var search = Linearizability(initial: initial)
        return search.check(operations)
    }

    private struct Event {
        let time: UInt64
        let isReturn: Bool
        let operation: Int

        /// A return at the instant of a call is not before it.
        func comes(before other: Event) -> Bool {
            if time != other.time { return time < other.time }
            if isReturn != other.isReturn { return !isReturn }
            return operation < other.operation
        }
    }

    private mutating func check(_ operations: [RegisterOperation]) -> Verdict {
        var events: [Event] = []
        for (number, operation) in operations.enumerated() {
            // A read that nobody got an answer to says nothing.
            if operation.returned == nil, operation.isRead { continue }
            events.append(Event(time: operation.called, isReturn: false, operation: number))
            guard let returned = operation.returned else { continue }
            events.append(Event(time: returned, isReturn: true, operation: number))
        }
        events.sort { $0.comes(before: $1) }
        var slotOf: [Int: Int] = [:]
        var (unknowns, checked) = (0, 0)
        for event in events {
            let operation = operations[event.operation]
            guard event.isReturn else {
                if operation.returned == nil { unknowns += 1 }
                if unknowns > Self.unknownsMax { break }
                guard let slot = open(operation) else { return .tooMany(checked: checked) }
                slotOf[event.operation] = slot
                continue
            }
            guard let slot = slotOf.removeValue(forKey: event.operation) else { continue }
            let before = worlds
            guard settle(slot) else { return .tooMany(checked: checked) }
            if worlds.isEmpty {
                return .impossible(operation, states: Self.someStates(before))
            }
            checked += 1
        }
        return .explained(checked: checked)
    }

    /// Nil where more are under way than bits.
    private mutating func open(_ operation: RegisterOperation) -> Int? {
        if let free = slots.firstIndex(where: { $0 == nil }) {
            slots[free] = operation
            return free
        }
        guard slots.count < 64 else { return nil }
        slots.append(operation)
        return slots.count - 1
    }

    /// The operation in `slot` returned: only worlds in which it happened stay.
    ///
    /// - Returns: Whether it could be looked at.
    private mutating func settle(_ slot: Int) -> Bool {
        let bit = UInt64(1) << UInt64(slot)
        var settled: Set<World> = []
        var seen: Set<World> = worlds
        var waiting = Array(worlds)
        while let world = waiting.popLast() {
            if world.done & bit != 0 {
                // Others may happen later: not before they must.
                settled.insert(World(state: world.state, done: world.done & ~bit))
                continue
            }
            for (number, operation) in slots.enumerated() {
                let other = UInt64(1) << UInt64(number)
                guard let operation, world.done & other == 0,
                    let state = operation.apply(to: world.state)
                else { continue }
                let next = World(state: state, done: world.done | other)
                if seen.insert(next).inserted { waiting.append(next) }
            }
            if seen.count > Self.worldsMax { return false }
        }
        worlds = settled
        slots[slot] = nil
        return true
    }

    private static func someStates(_ worlds: Set<World>) -> [[UInt8]?] {
        let states = Set(worlds.map(\.state))
        return Array(states.sorted { ($0 ?? []).lexicographicallyPrecedes($1 ?? []) }.prefix(4))
    }
}
