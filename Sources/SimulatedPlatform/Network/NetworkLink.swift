internal import Bytes

/// The way from one host to another: how long it takes, and what is in it while it is blocked.
///
/// What a blocked link holds is what TCP would send again: it arrives after the blocking, late.
final class NetworkLink {
    /// A group of hosts is cut off, or this direction alone.
    var isBlocked = false
    /// Whatever arrives before waits until then.
    var cloggedUntil: UInt64 = 0
    var extraDelay: UInt64 = 0
    private(set) var held: [() -> Void] = []
    private var freeAt: UInt64 = 0
    private let isLocal: Bool

    init(isLocal: Bool) {
        self.isLocal = isLocal
    }

    /// When bytes that leave now arrive.
    func arrival(_ bytes: Int, now: UInt64, _ random: inout SeededRandom) -> UInt64 {
        let dice = random.next()
        if isLocal { return now + 5_000 + dice % 20_000 + extraDelay }
        // A gigabit a second.
        freeAt = max(freeAt, now) + UInt64(bytes) * 8
        var delay = 80_000 + dice % 150_000
        // One in 64 meets a full buffer on its way.
        if dice >> 58 == 0 { delay += (dice >> 20) % 4_000_000 }
        return max(freeAt + delay + extraDelay, cloggedUntil)
    }

    func hold(_ arrival: @escaping () -> Void) { held.append(arrival) }

    func takeHeld() -> [() -> Void] {
        defer { held = [] }
        return held
    }
}
