internal import Bytes

/// One direction between two hosts: its delays, and the data held while it is blocked.
///
/// Held data arrives late after the block ends, as retransmitted TCP segments do.
final class NetworkLink {
    /// Whether a partition or a one-way fault blocks this direction.
    var isBlocked = false
    /// Data that would arrive earlier arrives at this time.
    var cloggedUntil: UInt64 = 0
    var extraDelay: UInt64 = 0
    private(set) var held: [() -> Void] = []
    private var freeAt: UInt64 = 0
    private let isLocal: Bool

    init(isLocal: Bool) {
        self.isLocal = isLocal
    }

    /// The arrival time of bytes sent now.
    func arrival(_ bytes: Int, now: UInt64, _ random: inout SeededRandom) -> UInt64 {
        let dice = random.next()
        if isLocal { return now + 5_000 + dice % 20_000 + extraDelay }
        // One gigabit per second.
        freeAt = max(freeAt, now) + UInt64(bytes) * 8
        var delay = 80_000 + dice % 150_000
        // One of 64 transmissions waits in a full buffer.
        if dice >> 58 == 0 { delay += (dice >> 20) % 4_000_000 }
        return max(freeAt + delay + extraDelay, cloggedUntil)
    }

    func hold(_ arrival: @escaping () -> Void) { held.append(arrival) }

    func removeHeld() -> [() -> Void] {
        defer { held = [] }
        return held
    }
}
