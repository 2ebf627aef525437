internal import Bytes

/// Bounds the memory of request bodies over all connections of the node's HTTP ports.
///
/// A body of up to `ownBytes` is always accepted. Larger bodies share `bytesMax`; a body that
/// exceeds it is refused rather than delayed: tools can retry, and a delayed request would keep its
/// memory.
final class BodyMemory: Sendable {
    /// Bytes that every body may have; forms and settings are far smaller.
    static let ownBytes = 64 << 10
    /// Bytes that all bodies may have beyond `ownBytes` each: two of the largest bodies.
    static let bytesMax = 128 << 20

    private let bytesMax: Int
    private let usedBytes = Guarded(0)

    init(bytesMax: Int = BodyMemory.bytesMax) {
        self.bytesMax = bytesMax
    }

    /// Accounts for a body whose size changes.
    ///
    /// - Returns: Whether the memory suffices; if not, nothing changed.
    func resize(from before: Int, to after: Int) -> Bool {
        let additional = max(0, after - BodyMemory.ownBytes) - max(0, before - BodyMemory.ownBytes)
        guard additional != 0 else { return true }
        return usedBytes.withLock { used in
            guard additional < 0 || used + additional <= bytesMax else { return false }
            used += additional
            return true
        }
    }
}
