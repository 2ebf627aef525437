package import Bytes
internal import Engine
internal import JSON
package import Seams
internal import Wire

/// The resources of one lane, not shared with other lanes: an arena, scratch buffers, a JSON
/// validator, and room for a batch of requests.
package final class LaneContext: @unchecked Sendable {  // tidy:allow one lane uses it
    /// The number of requests processed together: enough for their cache misses to overlap.
    static let batchMax = 32

    /// The row of the bucket counters that this lane writes.
    let row: Int
    /// Other lanes write the same row.
    let sharesRow: Bool
    let arena: Arena
    let scratch = ByteWriter(capacity: 4_096)
    /// A request whose value was decompressed, while it is executed; `scratch` serves the engine
    /// and the answer meanwhile.
    let inflated = ByteWriter(capacity: 16)
    let validator = JSONValidator()
    private let time: any TimeSource
    /// The wall clock without a call through the protocol; nil if it has no function.
    private let wallFunction: (@convention(c) () -> UInt64)?
    /// The commands of the present turn.
    let tally = CommandTally()
    let frames: UnsafeMutablePointer<Frame>
    let hashes: UnsafeMutablePointer<UInt64>

    package init(row: Int, sharesRow: Bool = false, pool: ChunkPool, time: any TimeSource) {
        self.row = row
        self.sharesRow = sharesRow
        self.time = time
        wallFunction = time.wallFunction
        arena = Arena(pool: pool)
        frames = .allocate(capacity: LaneContext.batchMax)
        hashes = .allocate(capacity: LaneContext.batchMax)
        // Chunks have an unowned reference to their arena, so arenas are never freed.
        _ = Unmanaged.passRetained(arena)
    }

    deinit {
        tally.deallocate()
        frames.deallocate()
        hashes.deallocate()
    }

    @inline(__always)
    func wallNanoseconds() -> UInt64 {
        if let wallFunction { return wallFunction() }
        return otherWallNanoseconds()
    }

    @inline(never)
    private func otherWallNanoseconds() -> UInt64 { time.wallNanoseconds() }

    @inline(never)
    func monotonicNanoseconds() -> UInt64 { time.monotonicNanoseconds() }

    func turn(_ wallNanoseconds: UInt64) -> ExecutionContext {
        ExecutionContext(wallNanoseconds: wallNanoseconds, arena: arena, scratch: scratch)
    }
}
