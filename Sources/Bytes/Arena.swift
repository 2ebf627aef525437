/// The allocator of documents: blocks of a few dozen sizes, cut from 64 KiB chunks.
///
/// General allocators add 8 to 16 bytes per block, return pages late and do not report what a
/// bucket occupies. Here a block takes exactly the bytes of its size class. Every reactor has its
/// own arena, so its lock is almost never contended. Any thread may free a block; it returns to the
/// chunk it was cut from, in whichever arena that is.
///
/// - A chunk's header is at its front, aligned to 64 KiB, and names its arena. A chunk with blocks
///   in use keeps its arena alive, so a block can be freed at any time.
/// - The lock is held for a few stores, never during a call to the pool or the system.
/// - Blocks over `SizeClass.bytesMax` come from the system. The caller of `free` passes the size.
/// - With `-D SYSTEM_ALLOCATOR` all blocks come from the system, so that AddressSanitizer detects
///   every use after a free.
package final class Arena: @unchecked Sendable {  // tidy:allow the spin lock guards all state
    private typealias Chunk = UnsafeMutablePointer<ChunkHeader>

    /// The first 64 bytes of a chunk.
    private struct ChunkHeader {
        /// The first free block; each free block's first word points to the next.
        var free: UnsafeMutableRawPointer?
        /// The chunk's arena; read without the lock, because it does not change while a block is in
        /// use.
        ///
        /// It is not the first field, because ThreadSanitizer reports a change of any field as one
        /// of the first.
        var owner: Unmanaged<Arena>
        var next: UnsafeMutablePointer<ChunkHeader>?
        var previous: UnsafeMutablePointer<ChunkHeader>?
        /// Offset of the part that was never allocated.
        var unused: UInt32
        /// Number of blocks in use.
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
    /// For each size class, the list of chunks with free blocks.
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
        // Blocks in use keep the arena alive, so all its chunks are empty, and therefore in
        // `roomy`.
        for index in 0..<SizeClass.count {
            while let chunk = roomy[index] {
                precondition(chunk.pointee.used == 0, "an arena outlives its blocks")
                unlink(chunk, index)
                pool.freeChunk(UnsafeMutableRawPointer(chunk))
            }
        }
        roomy.deallocate()
        flag.deallocate()
    }

    /// Returns a block of at least `bytes`, with undefined content.
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

    /// Allocates a block from a chunk in `roomy`.
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

    /// Frees a block into the arena it came from; `bytes` is the size it was allocated with.
    package static func free(_ block: UnsafeMutableRawPointer, _ bytes: Int) {
        guard bytes <= Arena.bytesMax else { return Memory.free(block) }
        let front = UInt(bitPattern: block) & ~UInt(ChunkPool.chunkBytes - 1)
        guard let chunk = UnsafeMutableRawPointer(bitPattern: front) else {
            preconditionFailure("a block lies in a chunk")
        }
        // Load only this field: another thread may be changing the other ones under the lock.
        let owner = chunk.load(fromByteOffset: 8, as: Unmanaged<Arena>.self)
        let wasLast = owner._withUnsafeGuaranteedRef {
            $0.putBack(block, into: chunk.assumingMemoryBound(to: ChunkHeader.self), bytes)
        }
        if wasLast { owner.release() }
    }

    /// Returns a block to its chunk; true if it was the chunk's last block in use.
    private func putBack(
        _ block: UnsafeMutableRawPointer,
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
        // Keep the last chunk of a class with free blocks. Otherwise, creating and deleting a
        // single document again and again would allocate and free a chunk each time.
        let goes = wasLast && (chunk.pointee.next != nil || chunk.pointee.previous != nil)
        if goes { unlink(chunk, index) }
        lock.release()
        if goes { pool.freeChunk(UnsafeMutableRawPointer(chunk)) }
        return wasLast
    }

    @inline(__always)
    private func isUsedUp(_ chunk: Chunk, _ index: Int) -> Bool {
        Int(chunk.pointee.unused) + SizeClass.bytes(of: index) > ChunkPool.chunkBytes
    }

    private func makeChunk(_ index: Int) -> Chunk {
        let chunk = pool.allocateChunk().bindMemory(to: ChunkHeader.self, capacity: 1)
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
