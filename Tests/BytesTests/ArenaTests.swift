import Bytes
import Foundation
import Testing

/// A block in use, filled with one byte.
private struct Block {
    let address: UnsafeMutableRawPointer
    let bytes: Int
    let mark: UInt8

    init(_ arena: Arena, _ bytes: Int, mark: UInt8) {
        address = arena.allocate(bytes)
        self.bytes = bytes
        self.mark = mark
        address.initializeMemory(as: UInt8.self, repeating: mark, count: bytes)
    }

    var isIntact: Bool {
        UnsafeRawBufferPointer(start: address, count: bytes).allSatisfy { $0 == mark }
    }

    func free() { Arena.free(address, bytes) }
}

@Suite(.serialized) struct ArenaTests {
    @Test(arguments: [1, 2, 3])
    func blocksFreedInRandomOrderDoNotOverlap(seed: UInt64) {
        var random = SeededRandom(seed: seed)
        let arena = Arena(pool: ChunkPool())
        var blocks: [Block] = []
        for step in 0..<60_000 {
            // Alternately grow and shrink, so that chunks are allocated and freed.
            let grows = Int.random(in: 0..<100, using: &random) < (step / 8_000 % 2 == 0 ? 70 : 30)
            if grows || blocks.isEmpty {
                let small = Int.random(in: 1...300, using: &random)
                let large = Int.random(in: 1...SizeClass.bytesMax * 2, using: &random)
                let bytes = Int.random(in: 0..<50, using: &random) == 0 ? large : small
                blocks.append(Block(arena, bytes, mark: UInt8.random(in: 0...255, using: &random)))
            } else {
                let index = Int.random(in: 0..<blocks.count, using: &random)
                blocks.swapAt(index, blocks.count - 1)
                guard let block = blocks.popLast() else { continue }
                #expect(block.isIntact)
                block.free()
            }
        }
        for block in blocks {
            #expect(block.isIntact)
            block.free()
        }
    }

    /// Each thread allocates from its own arena and frees blocks of the other thread.
    @Test func blocksFreedByAnotherThreadStayIntactUntilFreed() async {
        let pool = ChunkPool()
        let mailboxes = [Guarded<[Box]>([]), Guarded<[Box]>([])]
        let damaged = await withTaskGroup(of: Int.self) { group in
            for side in 0..<2 {
                group.addTask {
                    let arena = Arena(pool: pool)
                    var random = SeededRandom(seed: UInt64(side) + 77)
                    var damaged = 0
                    for _ in 0..<600 {
                        let made = (0..<100).map { _ in
                            let bytes = Int.random(in: 1...700, using: &random)
                            let mark = UInt8.random(in: 0...255, using: &random)
                            return Box(block: Block(arena, bytes, mark: mark))
                        }
                        mailboxes[1 - side].withLock { $0 += made }
                        let taken = mailboxes[side].withLock { box in
                            defer { box = [] }
                            return box
                        }
                        for box in taken {
                            if !box.block.isIntact { damaged += 1 }
                            box.block.free()
                        }
                    }
                    // The arena is released here, while the other thread still has blocks of it.
                    return damaged
                }
            }
            return await group.reduce(0, +)
        }
        #expect(damaged == 0)
        for box in mailboxes.flatMap({ $0.withLock { $0 } }) {
            #expect(box.block.isIntact)
            box.block.free()
        }
    }

    private struct Box: @unchecked Sendable {  // tidy:allow one thread at a time has it
        let block: Block
    }

    /// Sanitizers keep freed memory for a while, and use memory of their own.
    private static let isSanitized =
        dlsym(nil, "__asan_init") != nil || dlsym(nil, "__tsan_init") != nil

    @Test(.disabled(if: isSanitized)) func freedMemoryIsReturnedToTheSystem() throws {
        let arena = Arena(pool: ChunkPool())
        let before = try residentBytes()
        let blocks = (0..<600_000).map { Block(arena, 136, mark: UInt8(truncatingIfNeeded: $0)) }
        let full = try residentBytes()
        #expect(full - before > 75 << 20)
        for block in blocks { block.free() }
        let after = try residentBytes()
        // The pool keeps 16 MiB for the next burst.
        #expect(full - after > 55 << 20)
        // Blocks allocated after a burst use the returned chunks.
        let again = (0..<1_000).map { Block(arena, 136, mark: UInt8(truncatingIfNeeded: $0)) }
        for block in again {
            #expect(block.isIntact)
            block.free()
        }
    }

    private func residentBytes() throws -> Int {
        let text = try String(contentsOfFile: "/proc/self/statm", encoding: .utf8)
        let pages = try #require(text.split(separator: " ").dropFirst().first.flatMap { Int($0) })
        return pages * 4_096
    }

    @Test func spinLockExcludesOtherThreads() async {
        let flag = UnsafeMutablePointer<UInt8>.allocate(capacity: 1)
        flag.initialize(to: 0)
        let lock = SpinLock(at: flag)
        let counter = Counter()
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<3 {
                group.addTask {
                    for _ in 0..<200_000 {
                        lock.acquire()
                        counter.value += 1
                        lock.release()
                    }
                }
            }
        }
        #expect(counter.value == 600_000)
        flag.deallocate()
    }

    private final class Counter: @unchecked Sendable {  // tidy:allow the lock under test guards it
        var value = 0
    }
}
