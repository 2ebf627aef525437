/// Blocks of a few dozen sizes, cut from 64 KiB chunks: where documents live.
///
/// General allocators add 8 to 16 bytes a block, give pages back late and cannot say what a bucket
/// occupies. Here a block costs its size class and nothing else. Every reactor has an arena of its
/// own, so that its lock is free in all but rare cases; a block may be freed by any thread and goes
/// back to the chunk it was cut from, whoever owns that.
///
/// - A chunk's header sits at its 64 KiB-aligned front and names its arena; a chunk with blocks in
///   use keeps its arena alive, so a block can be freed whenever its user likes.
/// - The lock is held for a few stores, never while the pool or the system is asked for something.
/// - Blocks over `SizeClass.bytesMax` come from the system; sizes are known to whoever frees.
/// - With `-D SYSTEM_ALLOCATOR` all do, so that AddressSanitizer sees every use after a free.
package final class Arena: @unchecked Sendable {  // tidy:allow the spin lock guards all state
    private typealias Chunk = UnsafeMutablePointer<ChunkHeader>

    /// The first 64 bytes of a chunk.
    private struct ChunkHeader {
        /// The first free block, linked through their first words.
        var free: UnsafeMutableRawPointer?
        /// Read without the lock, for it never changes while a block is in use.
        ///
        /// Not the first field: the thread sanitizer takes a change of any for one of the first.
        var owner: Unmanaged<Arena>
        var next: UnsafeMutablePointer<ChunkHeader>?
        var previous: UnsafeMutablePointer<ChunkHeader>?
        /// Offset of the part that was never used.
        var unused: UInt32
        /// Blocks handed out.
        var used: UInt32
        var sizeClass: UInt32
    }

    private static let headerBytes = 64

    #if SYSTEM_ALLOCATOR
        private static let bytesMax = -1
    #else
        private static let bytesMax = SizeClass.bytesMax
    #endif

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

    deinit {
        // Whoever has blocks in use keeps the arena, so every chunk left is empty, and has room.
        for index in 0..<SizeClass.count {
            while let chunk = roomy[index] {
                precondition(chunk.pointee.used == 0, "an arena outlives its blocks")
                unlink(chunk, index)
                pool.give(UnsafeMutableRawPointer(chunk))
            }
        }
        roomy.deallocate()
        flag.deallocate()
    }

    /// A block of at least `bytes`, with undefined content.
    package func allocate(_ bytes: Int) -> UnsafeMutableRawPointer {
        guard bytes <= Arena.bytesMax else {
            return Memory.allocate(max(bytes, SizeClass.footprint(of: bytes)))
        }
        let index = SizeClass.index(of: bytes)
        lock.acquire()
        if roomy[index] == nil {
            lock.release()
            let chunk = makeChunk(index)
            lock.acquire()
            link(chunk, index)
        }
        guard let chunk = roomy[index] else { preconditionFailure("a chunk was just added") }
        let block = cut(from: chunk, index)
        if chunk.pointee.used == 1 { _ = Unmanaged.passRetained(self) }
        lock.release()
        return block
    }

    /// Takes a block out of a chunk that has room.
    @inline(__always)
    private func cut(from chunk: Chunk, _ index: Int) -> UnsafeMutableRawPointer {
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
        guard bytes <= Arena.bytesMax else { return Memory.free(block) }
        let front = UInt(bitPattern: block) & ~UInt(ChunkPool.chunkBytes - 1)
        guard let chunk = UnsafeMutableRawPointer(bitPattern: front) else {
            preconditionFailure("a block lies in a chunk")
        }
        // The second word alone: the others may be changing under the lock.
        let owner = chunk.load(fromByteOffset: 8, as: Unmanaged<Arena>.self)
        let wasLast = owner._withUnsafeGuaranteedRef {
            $0.take(back: block, into: chunk.assumingMemoryBound(to: ChunkHeader.self), bytes)
        }
        if wasLast { owner.release() }
    }

    /// Returns whether it was the chunk's last block in use.
    private func take(
        back block: UnsafeMutableRawPointer,
        into chunk: Chunk,
        _ bytes: Int
    ) -> Bool {
        let index = SizeClass.index(of: bytes)
        lock.acquire()
        precondition(
            chunk.pointee.sizeClass == UInt32(index),
            "a block must be freed with the size it was allocated with"
        )
        let wasFull = chunk.pointee.free == nil && isUsedUp(chunk, index)
        block.storeBytes(of: chunk.pointee.free, as: UnsafeMutableRawPointer?.self)
        chunk.pointee.free = block
        chunk.pointee.used -= 1
        if wasFull { link(chunk, index) }
        let wasLast = chunk.pointee.used == 0
        // The last roomy chunk of a class stays, or a single document would map and unmap forever.
        let goes = wasLast && (chunk.pointee.next != nil || chunk.pointee.previous != nil)
        if goes { unlink(chunk, index) }
        lock.release()
        if goes { pool.give(UnsafeMutableRawPointer(chunk)) }
        return wasLast
    }

    @inline(__always)
    private func isUsedUp(_ chunk: Chunk, _ index: Int) -> Bool {
        Int(chunk.pointee.unused) + SizeClass.bytes(of: index) > ChunkPool.chunkBytes
    }

    private func makeChunk(_ index: Int) -> Chunk {
        let chunk = pool.take().bindMemory(to: ChunkHeader.self, capacity: 1)
        chunk.initialize(
            to: ChunkHeader(
                free: nil,
                owner: Unmanaged.passUnretained(self),
                next: nil,
                previous: nil,
                unused: UInt32(Arena.headerBytes),
                used: 0,
                sizeClass: UInt32(index)
            )
        )
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
