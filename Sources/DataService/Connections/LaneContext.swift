package import Bytes
internal import Engine
internal import JSON
internal import Wire

/// What one lane brings to its work and shares with no other: memory to allocate from, memory to
/// put things together in, a JSON validator, and room for a batch of requests.
package final class LaneContext: @unchecked Sendable {  // tidy:allow one lane uses it
    /// How many requests are looked at together: enough for their cache misses to overlap.
    static let batchMax = 32

    /// The row of the counters that this lane writes.
    let row: Int
    /// Other lanes count in the same row.
    let sharesRow: Bool
    let arena: Arena
    let scratch = ByteWriter(capacity: 4_096)
    let validator = JSONValidator()
    let frames: UnsafeMutablePointer<Frame>
    let hashes: UnsafeMutablePointer<UInt64>

    package init(row: Int, sharesRow: Bool = false, pool: ChunkPool) {
        self.row = row
        self.sharesRow = sharesRow
        arena = Arena(pool: pool)
        frames = .allocate(capacity: LaneContext.batchMax)
        hashes = .allocate(capacity: LaneContext.batchMax)
        // Chunks name their arena without keeping it: arenas live as long as the process.
        _ = Unmanaged.passRetained(arena)
    }

    deinit {
        frames.deallocate()
        hashes.deallocate()
    }

    func turn(_ wallNanoseconds: UInt64) -> Turn {
        Turn(wallNanoseconds: wallNanoseconds, arena: arena, scratch: scratch)
    }
}
