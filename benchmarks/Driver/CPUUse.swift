internal import Foundation

/// Processor time as the kernel counts it: of processes in nanoseconds, of cores in ticks.
struct CPUUse: Sendable {
    /// Nanoseconds that all threads of the watched processes have run, also those that ended.
    let server: UInt64
    let driver: UInt64
    /// Of each core: ticks busy, and ticks in all.
    let cores: [(busy: UInt64, all: UInt64)]

    /// Reads all counters now.
    static func now(servers: [Int32]) -> CPUUse {
        CPUUse(
            server: servers.reduce(0) { $0 + nanoseconds(ofProcess: $1) },
            driver: read(CLOCK_PROCESS_CPUTIME_ID),
            cores: cores()
        )
    }

    /// The share of the time between two readings that each core was busy.
    static func busy(from first: CPUUse, to last: CPUUse) -> [Double] {
        zip(first.cores, last.cores).map { first, last in
            let all = last.all - first.all
            return all == 0 ? 0 : Double(last.busy - first.busy) / Double(all)
        }
    }

    /// 0 for a process that has ended.
    private static func nanoseconds(ofProcess pid: Int32) -> UInt64 {
        var clock = clockid_t()
        guard clock_getcpuclockid(pid, &clock) == 0 else { return 0 }
        return read(clock)
    }

    private static func read(_ clock: clockid_t) -> UInt64 {
        var time = timespec()
        guard clock_gettime(clock, &time) == 0 else { return 0 }
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    /// The lines of each core in `/proc/stat`: user, nice, system, idle, iowait, and the rest.
    private static func cores() -> [(busy: UInt64, all: UInt64)] {
        let text = (try? String(contentsOfFile: "/proc/stat", encoding: .utf8)) ?? ""
        return text.split(separator: "\n").compactMap { line in
            let words = line.split(separator: " ")
            guard let name = words.first, name.hasPrefix("cpu"), name != "cpu" else { return nil }
            let ticks = words.dropFirst().prefix(8).compactMap { UInt64($0) }
            guard ticks.count == 8 else { return nil }
            let all = ticks.reduce(0, +)
            return (all - ticks[3] - ticks[4], all)
        }
    }
}

/// Which cores a process may run on.
enum Affinity {
    /// The kernel's list of a process, such as `0-3` or `1`; empty if it has ended.
    static func list(ofProcess pid: Int32) -> String {
        let status = (try? String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8)) ?? ""
        let line = status.split(separator: "\n").first { $0.hasPrefix("Cpus_allowed_list:") }
        return line?.split(separator: "\t").last.map(String.init) ?? ""
    }
}
