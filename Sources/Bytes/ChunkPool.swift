/// 64 KiB chunks for all arenas of the process, mapped from the system in regions of 4 MiB.
///
/// Arenas return empty chunks. The pool keeps a few of them with their pages ("warm"). Of the
/// others ("cold") it returns the pages to the system and keeps the addresses, so that resident
/// memory follows use.
///
/// Once documents take tens of MiB, the pool requests huge pages: a command on a random document
/// then avoids a walk through the page tables, a sixth of its time (measured with 1 M documents of
/// 100 bytes).
package final class ChunkPool: Sendable {
    package static let chunkBytes = 64 << 10
    private static let regionBytes = 4 << 20
    private static let warmChunksMax = 256  // 16 MiB: saves the page faults of a burst.
    /// The first regions use ordinary pages, so that small nodes use no more memory than they need.
    private static let smallPageRegions = 8
    private static let hugePageBytes = 2 << 20

    private struct State {
        var warm: [UInt] = []
        var cold: [UInt] = []
        var regions: [UInt] = []
    }

    private let state = Guarded(State())

    package init() {}

    deinit {
        // Arenas retain their pool and blocks retain their arena, so no chunk is in use any more.
        for region in state.withLock({ $0.regions }) {
            guard let address = UnsafeMutableRawPointer(bitPattern: region) else { continue }
            Memory.unmapPages(address, ChunkPool.regionBytes)
        }
    }

    /// Returns a chunk aligned to its size, with undefined content.
    func allocateChunk() -> UnsafeMutableRawPointer {
        let address = state.withLock { state in
            if let chunk = state.warm.popLast() ?? state.cold.popLast() { return chunk }
            let region = Memory.mapPages(
                ChunkPool.regionBytes,
                alignedTo: ChunkPool.hugePageBytes
            )
            if state.regions.count >= ChunkPool.smallPageRegions {
                Memory.preferHugePages(region, ChunkPool.regionBytes)
            }
            let first = UInt(bitPattern: region)
            state.regions.append(first)
            for offset in stride(
                from: ChunkPool.regionBytes - ChunkPool.chunkBytes,
                to: 0,
                by: -ChunkPool.chunkBytes
            ) {
                state.cold.append(first + UInt(offset))
            }
            return first
        }
        guard let chunk = UnsafeMutableRawPointer(bitPattern: address) else {
            preconditionFailure("a mapped region never begins at zero")
        }
        return chunk
    }

    func freeChunk(_ chunk: UnsafeMutableRawPointer) {
        let address = UInt(bitPattern: chunk)
        let isKept = state.withLock { state in
            guard state.warm.count < ChunkPool.warmChunksMax else { return false }
            state.warm.append(address)
            return true
        }
        guard !isKept else { return }
        Memory.releasePages(chunk, ChunkPool.chunkBytes)
        // Otherwise the system would map memory here again to form a huge page.
        let page = UInt(bitPattern: chunk) & ~UInt(ChunkPool.hugePageBytes - 1)
        if let start = UnsafeMutableRawPointer(bitPattern: page) {
            Memory.avoidHugePages(start, ChunkPool.hugePageBytes)
        }
        state.withLock { $0.cold.append(address) }
    }
}
