internal import Bytes

/// Bounds what request bodies take of the node's memory over all connections of the admin port.
///
/// A body of up to `ownBytes` is always taken in. Larger ones share `bytesMax`: one that finds no room
/// is refused, since an administrator's tool can retry and a request that waits would keep what it
/// has.
final class BodyMemory: Sendable {
    /// Forms and settings are far below.
    static let ownBytes = 64 << 10
    /// Two of the largest bodies.
    static let bytesMax = 128 << 20

    private let bytesMax: Int
    private let taken = Guarded(0)

    init(bytesMax: Int = BodyMemory.bytesMax) {
        self.bytesMax = bytesMax
    }

    /// Counts a body that grows from one size to another, or, where it ends, shrinks.
    ///
    /// - Returns: Whether there is room; otherwise nothing changed.
    func resize(from before: Int, to after: Int) -> Bool {
        let additional = max(0, after - BodyMemory.ownBytes) - max(0, before - BodyMemory.ownBytes)
        guard additional != 0 else { return true }
        return taken.withLock { taken in
            guard additional < 0 || taken + additional <= bytesMax else { return false }
            taken += additional
            return true
        }
    }
}
