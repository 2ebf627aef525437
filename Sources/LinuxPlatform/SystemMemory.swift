internal import Glibc

/// The memory that this process may use.
package enum SystemMemory {
    /// Bytes of the machine's memory, or of the container's limit if that is lower.
    package static var total: UInt64 {
        let machine = UInt64(sysconf(Int32(_SC_PHYS_PAGES))) * UInt64(sysconf(Int32(_SC_PAGESIZE)))
        let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        return limits.compactMap(number).reduce(machine, min)
    }

    /// The number in a small file; nil if the file is missing or contains the word "max".
    private static func number(_ path: String) -> UInt64? {
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var buffer = [UInt8](repeating: 0, count: 32)
        let count = read(descriptor, &buffer, buffer.count)
        guard count > 0 else { return nil }
        let digits = buffer.prefix(count).prefix { $0 >= 0x30 && $0 <= 0x39 }
        return UInt64(String(decoding: digits, as: UTF8.self))
    }
}
