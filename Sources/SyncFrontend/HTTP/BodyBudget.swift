internal import SyncWire

/// Bounds the memory of all bodies that are collected at one time.
///
/// A body of up to `ownBytes` is always accepted. One that exceeds what all bodies share is refused, because clients
/// repeat a refused request, and a delayed one would keep its memory.
final class BodyBudget {
    static let ownBytes = 64 << 10

    private let bytesMax: Int
    private var usedBytes = 0

    init(bytesMax: Int) {
        self.bytesMax = bytesMax
    }

    /// Accounts for a body whose size changes; a smaller size always fits.
    ///
    /// - Throws: `Refusal` with 503; nothing has changed.
    func resize(from before: Int, to after: Int) throws(Refusal) {
        let more = max(0, after - Self.ownBytes) - max(0, before - Self.ownBytes)
        guard more <= 0 || usedBytes + more <= bytesMax else {
            throw Refusal(503, "The gateway receives too many large requests; try again later")
        }
        usedBytes += more
    }
}
