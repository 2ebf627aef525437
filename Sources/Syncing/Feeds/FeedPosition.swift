/// A place in a feed: after the row of a sequence, or within what a grant sends late.
///
/// `N` is after the row with the sequence N. `T:N` is within the older rows that a feed sends because of a
/// grant at T: after that of N. All of `T:...` is after `T - 1`, and before the row of T itself.
package struct FeedPosition: Hashable, Sendable {
    package static let start = FeedPosition(0)

    /// The sequence of the grant; 0 for a plain row.
    package let trigger: UInt64
    package let sequence: UInt64

    package init(trigger: UInt64 = 0, _ sequence: UInt64) {
        self.trigger = trigger
        self.sequence = sequence
    }
}

extension FeedPosition: Comparable {
    package static func < (one: FeedPosition, other: FeedPosition) -> Bool {
        one.order < other.order
    }

    private var order: (UInt64, UInt8, UInt64) {
        trigger == 0 ? (sequence, 1, sequence) : (trigger, 0, sequence)
    }
}

extension FeedPosition: CustomStringConvertible {
    package var description: String { trigger == 0 ? "\(sequence)" : "\(trigger):\(sequence)" }
}
