internal import Bytes
internal import ClusterService
internal import Foundation

/// Memory and CPU use of the machine, from `/proc` and the container's limits.
package final class Machine: Sendable {
    struct Memory: Sendable {
        /// Bytes of the machine, or the container's limit if that is lower.
        var total: UInt64 = 0
        var free: UInt64 = 0
        var swapTotal: UInt64 = 0
        var swapFree: UInt64 = 0
    }

    private struct CPUTime {
        var busy: UInt64 = 0
        var total: UInt64 = 0
        var percent: Double = 0
        var readAt: UInt64 = 0
    }

    let directory: String
    private let last = Guarded(CPUTime())

    package init(directory: String) {
        self.directory = directory
    }

    /// Bytes of memory that the node may use: the machine's, or the container's limit if lower.
    package static var memoryTotal: UInt64 { memory.total }

    static var cpuCount: Int { ProcessInfo.processInfo.activeProcessorCount }

    static var memory: Memory {
        var memory = Memory()
        for line in text("/proc/meminfo").split(separator: "\n") {
            let parts = line.split(whereSeparator: { $0 == " " || $0 == ":" })
            guard parts.count >= 2, let kilobytes = UInt64(parts[1]) else { continue }
            switch parts[0] {
            case "MemTotal": memory.total = kilobytes << 10
            case "MemAvailable": memory.free = kilobytes << 10
            case "SwapTotal": memory.swapTotal = kilobytes << 10
            case "SwapFree": memory.swapFree = kilobytes << 10
            default: continue
            }
        }
        if let limit = number("/sys/fs/cgroup/memory.max"), limit < memory.total {
            let used = number("/sys/fs/cgroup/memory.current") ?? 0
            memory.total = limit
            memory.free = min(memory.free, limit - min(limit, used))
        }
        return memory
    }

    /// CPU use in percent of all cores since the previous measurement, which is at least half a
    /// second ago; the first measures since the machine's start.
    ///
    /// 0 if `/proc/stat` cannot be read.
    func cpuPercent(nowMilliseconds now: UInt64) -> Double {
        guard let (busy, total) = Self.cpuTime() else { return 0 }
        return last.withLock { last in
            guard now >= last.readAt + 500 else { return last.percent }
            let share = Double(busy - min(busy, last.busy)) / Double(max(total - last.total, 1))
            last = CPUTime(busy: busy, total: total, percent: 100 * share, readAt: now)
            return last.percent
        }
    }

    func reading(nowMilliseconds now: UInt64) -> MachineReading {
        let memory = Self.memory
        var reading = MachineReading()
        reading.cpuPercent = cpuPercent(nowMilliseconds: now)
        reading.cores = Self.cpuCount
        reading.memoryTotal = memory.total
        reading.memoryFree = memory.free
        reading.swapTotal = memory.swapTotal
        reading.swapFree = memory.swapFree
        reading.diskIdentity = diskIdentity
        return reading
    }

    /// The number of the data directory's file system, with 32 bits for the machine since its start: numbers of
    /// file systems are those of one machine.
    ///
    /// 0 if the kernel does not report one of them.
    private var diskIdentity: UInt64 {
        var status = stat()
        let boot = Array(Self.text("/proc/sys/kernel/random/boot_id").utf8)
        guard !boot.isEmpty, stat(directory, &status) == 0 else { return 0 }
        let machine = boot.withUnsafeBytes { CRC32.checksum(ByteView($0)) }
        return UInt64(machine) << 32 | UInt64(status.st_dev) & 0xffff_ffff
    }

    /// The architecture as configure scripts write it.
    static var architecture: String {
        var names = utsname()
        guard uname(&names) == 0 else { return "unknown" }
        return withUnsafeBytes(of: &names.machine) { bytes in
            String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        }
    }

    private static func cpuTime() -> (busy: UInt64, total: UInt64)? {
        // cpu user nice system idle iowait irq softirq steal ...
        guard let line = text("/proc/stat").split(separator: "\n").first else { return nil }
        let ticks = line.split(separator: " ").dropFirst().compactMap { UInt64($0) }
        guard ticks.count >= 8 else { return nil }
        let total = ticks.prefix(8).reduce(0, +)
        return (total - ticks[3] - ticks[4], total)
    }

    private static func number(_ path: String) -> UInt64? {
        UInt64(text(path).trimmingCharacters(in: .whitespacesAndNewlines))
    }

    /// The content of a file; empty if the kernel or container does not have it.
    private static func text(_ path: String) -> String {
        guard let bytes = FileManager.default.contents(atPath: path) else { return "" }
        return String(decoding: bytes, as: UTF8.self)
    }
}
