internal import CLinux
internal import Glibc
internal import Seams

/// The kernel's random numbers.
package struct LinuxEntropy: Entropy {
    package init() {}

    package func next() -> UInt64 {
        var value: UInt64 = 0
        while true {
            let count = divan_random(&value, MemoryLayout<UInt64>.size)
            if count == MemoryLayout<UInt64>.size { return value }
            precondition(count >= 0 || errno == EINTR, "the kernel returned no random bytes")
        }
    }
}
