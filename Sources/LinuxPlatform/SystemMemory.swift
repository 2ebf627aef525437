internal import Glibc

/// The memory that this process may use.
package enum SystemMemory {
    /// Bytes of the machine's memory, or of the container's limit if that is lower.
    package static var total: UInt64 {
        let machine = UInt64(sysconf(Int32(_SC_PHYS_PAGES))) * UInt64(sysconf(Int32(_SC_PAGESIZE)))
        let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
        return limits.compactMap(number).reduce(machine, min)
    }

    /// Bytes of resident memory of a process, by its open file `statm`; nil if it has ended.
    static func resident(file: Int32) -> UInt64? {
        var buffer = [UInt8](repeating: 0, count: 128)
        let count = pread(file, &buffer, buffer.count, 0)
        guard count > 0 else { return nil }
        // The file has pages: all of the address space, the resident ones, and others.
        let fields = String(decoding: buffer.prefix(count), as: UTF8.self).split(separator: " ")
        guard fields.count > 1, let pages = UInt64(fields[1]) else { return nil }
        return pages * UInt64(sysconf(Int32(_SC_PAGESIZE)))
    }

    /// The number in a small file; nil if the file is missing or contains the word "max".
    private static func number(_ path: String) -> UInt64? {
        content(path).flatMap { UInt64($0.prefix { $0.isNumber }) }
    }

    private static func content(_ path: String) -> String? {
        let descriptor = Glibc.open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var buffer = [UInt8](repeating: 0, count: 128)
        let count = read(descriptor, &buffer, buffer.count)
        guard count > 0 else { return nil }
        return String(decoding: buffer.prefix(count), as: UTF8.self)
    }
}
