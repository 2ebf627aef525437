/// Blocks of a few dozen sizes, cut from 64 KiB chunks: where documents live.
///
/// General allocators add 8 to 16 bytes a block, give pages back late and cannot say what a bucket
/// occupies. Here a block costs its size class and nothing else. Every reactor has an arena of its
/// own, so that its lock is free in all but rare cases; a block may be freed by any thread and goes
/// back to the chunk it was cut from, whoever owns that.
///
/// - A chunk's header sits at its 64 KiB-aligned front and names its arena.
/// - Blocks over `SizeClass.bytesMax` come from the system; sizes are known to whoever frees.
package final class Arena: @unchecked Sendable {  // tidy:allow the spin lock guards all state
    private typealias Chunk = UnsafeMutablePointer<ChunkHeader>

    /// The first 64 bytes of a chunk.
    private struct ChunkHeader {
        var owner: Unmanaged<Arena>
        /// The first free block, linked through their first words.
        var free: UnsafeMutableRawPointer?
        var next: UnsafeMutablePointer<ChunkHeader>?
        var previous: UnsafeMutablePointer<ChunkHeader>?
        /// Offset of the part that was never used.
        var unused: UInt32
        /// Blocks handed out.
        var used: UInt32
        var sizeClass: UInt32
    }

    private static let headerBytes = 64

    private let pool: ChunkPool
    private let lock: SpinLock
    private let flag: UnsafeMutablePointer<UInt8>
    /// For each class, the chunks that have room.
    private let roomy: UnsafeMutablePointer<Chunk?>

    package init(pool: ChunkPool) {
        self.pool = pool
        flag = .allocate(capacity: 64)
        flag.initialize(repeating: 0, count: 64)
        lock = SpinLock(at: flag)
        roomy = .allocate(capacity: SizeClass.count)
        roomy.initialize(repeating: nil, count: SizeClass.count)
    }

    /// A block of at least `bytes`, with undefined content.
    package func allocate(_ bytes: Int) -> UnsafeMutableRawPointer {
        guard bytes <= SizeClass.bytesMax else { return Memory.allocate(bytes) }
        let index = SizeClass.index(of: bytes)
        lock.acquire()
        defer { lock.release() }
        let chunk = roomy[index] ?? addChunk(index)
        chunk.pointee.used += 1
        if let block = chunk.pointee.free {
            chunk.pointee.free = block.load(as: UnsafeMutableRawPointer?.self)
            if chunk.pointee.free == nil, isUsedUp(chunk, index) { unlink(chunk, index) }
            return block
        }
        let block = UnsafeMutableRawPointer(chunk) + Int(chunk.pointee.unused)
        chunk.pointee.unused += UInt32(SizeClass.bytes(of: index))
        if isUsedUp(chunk, index) { unlink(chunk, index) }
        return block
    }

    /// Frees a block of `bytes`, as asked for, to whichever arena it came from.
    package static func free(_ block: UnsafeMutableRawPointer, _ bytes: Int) {
        guard bytes <= SizeClass.bytesMax else { return Memory.free(block) }
        let front = UInt(bitPattern: block) & ~UInt(ChunkPool.chunkBytes - 1)
        guard let chunk = Chunk(bitPattern: front) else {
            preconditionFailure("a block lies in a chunk")
        }
        chunk.pointee.owner._withUnsafeGuaranteedRef { $0.take(back: block, into: chunk, bytes) }
    }

    private func take(back block: UnsafeMutableRawPointer, into chunk: Chunk, _ bytes: Int) {
        let index = SizeClass.index(of: bytes)
        lock.acquire()
        defer { lock.release() }
        precondition(
            chunk.pointee.sizeClass == UInt32(index),
            "a block must be freed with the size it was allocated with"
        )
        let wasFull = chunk.pointee.free == nil && isUsedUp(chunk, index)
        block.storeBytes(of: chunk.pointee.free, as: UnsafeMutableRawPointer?.self)
        chunk.pointee.free = block
        chunk.pointee.used -= 1
        if wasFull { link(chunk, index) }
        // The last roomy chunk of a class stays, or a single document would map and unmap forever.
        if chunk.pointee.used == 0, chunk.pointee.next != nil || chunk.pointee.previous != nil {
            unlink(chunk, index)
            pool.give(UnsafeMutableRawPointer(chunk))
        }
    }

    @inline(__always)
    private func isUsedUp(_ chunk: Chunk, _ index: Int) -> Bool {
        Int(chunk.pointee.unused) + SizeClass.bytes(of: index) > ChunkPool.chunkBytes
    }

    private func addChunk(_ index: Int) -> Chunk {
        let chunk = pool.take().bindMemory(to: ChunkHeader.self, capacity: 1)
        chunk.initialize(
            to: ChunkHeader(
                owner: Unmanaged.passUnretained(self),
                free: nil,
                next: nil,
                previous: nil,
                unused: UInt32(Arena.headerBytes),
                used: 0,
                sizeClass: UInt32(index)
            )
        )
        link(chunk, index)
        return chunk
    }

    private func link(_ chunk: Chunk, _ index: Int) {
        chunk.pointee.next = roomy[index]
        chunk.pointee.previous = nil
        roomy[index]?.pointee.previous = chunk
        roomy[index] = chunk
    }

    private func unlink(_ chunk: Chunk, _ index: Int) {
        let (previous, next) = (chunk.pointee.previous, chunk.pointee.next)
        if let previous { previous.pointee.next = next } else { roomy[index] = next }
        next?.pointee.previous = previous
        chunk.pointee.next = nil
        chunk.pointee.previous = nil
    }
}
