internal import Glibc

/// The memory calls of the C library.
@usableFromInline
package enum Memory {
    /// The address of empty views: not null, and never read.
    @inlinable
    package static var nowhere: UnsafeRawPointer {
        guard let address = UnsafeRawPointer(bitPattern: 16) else {
            preconditionFailure("16 is not null")
        }
        return address
    }

    /// Whether `count` bytes are equal.
    ///
    /// Keys are short: up to 40 bytes are compared by words, because a call would cost more.
    @inlinable
    package static func areEqual(
        _ one: UnsafeRawPointer,
        _ other: UnsafeRawPointer,
        count: Int
    ) -> Bool {
        guard count >= 8, count <= 40 else { return compare(one, other, count: count) == 0 }
        var offset = 0
        while offset < count - 8 {
            let word = one.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
            if word != other.loadUnaligned(fromByteOffset: offset, as: UInt64.self) { return false }
            offset += 8
        }
        return one.loadUnaligned(fromByteOffset: count - 8, as: UInt64.self)
            == other.loadUnaligned(fromByteOffset: count - 8, as: UInt64.self)
    }

    @usableFromInline
    package static func compare(
        _ one: UnsafeRawPointer,
        _ other: UnsafeRawPointer,
        count: Int
    ) -> Int {
        Int(memcmp(one, other, count))
    }

    @inlinable
    package static func copy(
        to target: UnsafeMutableRawPointer,
        from source: UnsafeRawPointer,
        count: Int
    ) {
        if count > 0 { target.copyMemory(from: source, byteCount: count) }
    }

    /// Allocates from the system allocator; ends the process if there is no memory.
    package static func allocate(_ count: Int) -> UnsafeMutableRawPointer {
        guard let address = malloc(max(count, 1)) else {
            fatalError("out of memory: the system refused \(count) bytes")
        }
        return address
    }

    package static func reallocate(
        _ address: UnsafeMutableRawPointer?,
        _ count: Int
    ) -> UnsafeMutableRawPointer {
        guard let moved = realloc(address, max(count, 1)) else {
            fatalError("out of memory: the system refused \(count) bytes")
        }
        return moved
    }

    package static func free(_ address: UnsafeMutableRawPointer) { Glibc.free(address) }

    /// Maps zeroed pages from the system, aligned to `alignment` (a power of two).
    package static func mapPages(_ count: Int, alignedTo alignment: Int) -> UnsafeMutableRawPointer
    {
        let slack = count + alignment
        let mapped = mmap(
            nil,
            slack,
            PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
            -1,
            0
        )
        guard let base = mapped, base != MAP_FAILED else {
            fatalError("out of memory: the system refused to map \(count) bytes")
        }
        let address = UInt(bitPattern: base)
        let aligned = (address + UInt(alignment) - 1) & ~UInt(alignment - 1)
        let before = Int(aligned - address)
        let after = slack - before - count
        if before > 0 { munmap(base, before) }
        if after > 0 { munmap(base + before + count, after) }
        return base + before
    }

    package static func unmapPages(_ address: UnsafeMutableRawPointer, _ count: Int) {
        munmap(address, count)
    }

    /// Returns the pages of an address range to the system; the range stays valid and reads as
    /// zeros.
    package static func releasePages(_ address: UnsafeMutableRawPointer, _ count: Int) {
        madvise(address, count, MADV_DONTNEED)
    }
}

extension Memory {
    /// Allocates zeroed memory aligned to a cache line, for tables; freed by `free`.
    package static func allocateLines(_ count: Int) -> UnsafeMutableRawPointer {
        var address: UnsafeMutableRawPointer?
        let code = posix_memalign(&address, 64, count)
        guard code == 0, let address else {
            fatalError("out of memory: the system refused \(count) bytes")
        }
        memset(address, 0, count)
        return address
    }
}

extension Memory {
    /// Requests pages of 2 MiB; has no effect if the system has none.
    package static func preferHugePages(_ address: UnsafeMutableRawPointer, _ count: Int) {
        madvise(address, count, MADV_HUGEPAGE)
    }

    package static func avoidHugePages(_ address: UnsafeMutableRawPointer, _ count: Int) {
        madvise(address, count, MADV_NOHUGEPAGE)
    }
}
