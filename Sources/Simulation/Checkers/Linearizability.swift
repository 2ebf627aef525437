/// Whether a linearization of the operations on one document exists: an order that respects time
/// and explains every result.
///
/// Wing and Gong's search in Lowe's form: it processes events in order of time and keeps the set of
/// all possible worlds (`World`: a state, and which pending operations have taken effect). When an
/// operation returns, worlds in which it cannot have taken effect are removed; if none remains,
/// there is no linearization. Equal worlds are merged, which is the memoization; without pending
/// operations a world is only a state.
///
/// - An operation of unknown outcome never returns: it may take effect at any time after its call,
///   or never.
/// - Each of those doubles the worlds. At the ninth the document is *retired*: earlier operations
///   are checked, later ones are not.
package struct Linearizability: Sendable {
    package enum Decision: Hashable, Sendable {
        /// `checked`: operations that returned before the document was retired.
        case explained(checked: Int)
        /// No world remains at this operation's return; `states` has some of the states before it.
        case impossible(RegisterOperation, states: [[UInt8]?])
        /// The number of worlds exceeds the limit; later operations are not checked.
        case tooMany(checked: Int)
    }

    static let unknownsMax = 8
    static let worldsMax = 200_000

    private struct World: Hashable {
        var state: [UInt8]?
        /// Bit i: the operation in slot i has taken effect.
        var done: UInt64 = 0
    }

    private var worlds: Set<World>
    /// Pending operations; a slot is reused after its operation has returned.
    private var slots: [RegisterOperation?] = []

    private init(initial: [UInt8]?) {
        worlds = [World(state: initial)]
    }

    // MARK: Checking

    /// Searches a linearization.
    ///
    /// - Parameters:
    ///   - operations: In any order, without operations that were refused.
    ///   - initial: The value before the first operation.
    /// - Returns: The decision.
    package static func check(
        _ operations: [RegisterOperation],
        initial: [UInt8]? = nil
    ) -> Decision {
        var search = Linearizability(initial: initial)
        return search.check(operations)
    }

    private struct Event {
        let time: UInt64
        let isReturn: Bool
        let operation: Int

        /// A return at the same time as a call is ordered after the call.
        func comes(before other: Event) -> Bool {
            if time != other.time { return time < other.time }
            if isReturn != other.isReturn { return !isReturn }
            return operation < other.operation
        }
    }

    private mutating func check(_ operations: [RegisterOperation]) -> Decision {
        var events: [Event] = []
        for (number, operation) in operations.enumerated() {
            // A read without a response constrains nothing.
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
            guard completeOperation(in: slot) else { return .tooMany(checked: checked) }
            if worlds.isEmpty {
                return .impossible(operation, states: Self.someStates(before))
            }
            checked += 1
        }
        return .explained(checked: checked)
    }

    /// Assigns a slot to a pending operation; nil if more operations are pending than bits.
    private mutating func open(_ operation: RegisterOperation) -> Int? {
        if let free = slots.firstIndex(where: { $0 == nil }) {
            slots[free] = operation
            return free
        }
        guard slots.count < 64 else { return nil }
        slots.append(operation)
        return slots.count - 1
    }

    /// Keeps only worlds in which the returned operation in `slot` has taken effect.
    ///
    /// - Returns: False if there are too many worlds.
    private mutating func completeOperation(in slot: Int) -> Bool {
        let bit = UInt64(1) << UInt64(slot)
        var completed: Set<World> = []
        var seen: Set<World> = worlds
        var waiting = Array(worlds)
        while let world = waiting.popLast() {
            if world.done & bit != 0 {
                // Pending operations may take effect later; they are applied only if necessary.
                completed.insert(World(state: world.state, done: world.done & ~bit))
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
        worlds = completed
        slots[slot] = nil
        return true
    }

    private static func someStates(_ worlds: Set<World>) -> [[UInt8]?] {
        let states = Set(worlds.map(\.state))
        return Array(states.sorted { ($0 ?? []).lexicographicallyPrecedes($1 ?? []) }.prefix(4))
    }
}
