/// Draws the sequences of one node for one database.
///
/// A sequence is `S = L x 64 + slot`: L is a Lamport counter of the node, slot its number among the nodes
/// of the database. So nodes draw without asking each other, no two draw the same, and all have one order.
/// Until a second node joins, S = L, so a database with one node has small numbers without gaps; L x 64 is
/// above all of them.
///
/// - Sequences of a node increase, and are above every mark that it has received.
/// - A sequence is drawn only below what is reserved on disk, so none is drawn twice after a crash.
/// - JavaScript's numbers hold a sequence exactly: it is below 2^53.
package struct SequenceCounter: Hashable, Sendable {
    package static let slotCount: UInt64 = 64
    /// The first number that is no sequence.
    package static let end: UInt64 = 1 << 53
    /// How many values of L are reserved at a time: a reservation a million writes.
    package static let block: UInt64 = 1 << 20

    package enum Numbering: Hashable, Sendable {
        case plain
        /// The slot of this node, below 64.
        case slot(UInt8)
    }

    package enum Draw: Hashable, Sendable {
        case sequence(UInt64)
        /// Reserve up to `reservation` on disk, call `reserved(through:)`, and draw again.
        case needsReservation
        /// All sequences of the database are used.
        case exhausted
    }

    package private(set) var numbering: Numbering
    /// The L of the newest sequence that was drawn or received.
    package private(set) var last: UInt64
    private var reserved: UInt64

    /// A counter after a start: everything that was reserved may have been drawn.
    ///
    /// - Parameters:
    ///   - reserved: The highest L that is reserved on disk; 0 for a new database.
    ///   - numbering: How many nodes the database has: one, or several.
    package init(reserved: UInt64 = 0, _ numbering: Numbering = .plain) {
        if case .slot(let slot) = numbering {
            precondition(slot < Self.slotCount, "a slot is below 64")
        }
        self.numbering = numbering
        self.reserved = reserved
        last = reserved
    }

    /// The value of L to reserve next.
    package var reservation: UInt64 { last + Self.block }

    package mutating func reserved(through counter: UInt64) { reserved = max(reserved, counter) }

    package mutating func draw() -> Draw {
        let next = last + 1
        guard next < Self.end, sequence(of: next) < Self.end else { return .exhausted }
        guard next <= reserved else { return .needsReservation }
        last = next
        return .sequence(sequence(of: next))
    }

    /// Raises L to that of a mark or of another node, so that what is drawn later is above it.
    package mutating func raise(to counter: UInt64) { last = max(last, min(counter, Self.end)) }

    /// Ends the plain numbers for good, because a second node joins.
    package mutating func join(slot: UInt8) {
        precondition(slot < Self.slotCount, "a slot is below 64")
        numbering = .slot(slot)
    }

    /// The highest sequence that nodes can have drawn with L at most `counter`.
    package func through(_ counter: UInt64) -> UInt64 {
        switch numbering {
        case .plain: counter
        case .slot: counter * Self.slotCount + Self.slotCount - 1
        }
    }

    private func sequence(of counter: UInt64) -> UInt64 {
        switch numbering {
        case .plain: counter
        case .slot(let slot): counter * Self.slotCount + UInt64(slot)
        }
    }
}
