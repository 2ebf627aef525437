import Foundation
import Server

/// The line on standard output that tells whoever started us that we serve.
enum Ready {
    static func print(
        _ addresses: Node.Addresses,
        adminPort: UInt16,
        startedNanoseconds: UInt64
    ) {
        let elapsed =
            ProcessStart.nowNanoseconds
            - min(
                startedNanoseconds,
                ProcessStart.nowNanoseconds
            )
        let memcached = addresses.memcached.map { "\"memcached\":\($0.port)," } ?? ""
        let line =
            "{\"event\":\"ready\",\"kv\":\(addresses.kv.port),\"admin\":\(adminPort),"
            + "\(memcached)\"ms\":\(elapsed / 1_000_000)}\n"
        FileHandle.standardOutput.write(Data(line.utf8))
    }
}

/// When this process began, by the kernel's account: loading the program counts.
enum ProcessStart {
    static var nowNanoseconds: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    /// Field 22 of `/proc/self/stat`: clock ticks since boot.
    static var monotonicNanoseconds: UInt64 {
        guard let stat = try? String(contentsOfFile: "/proc/self/stat", encoding: .utf8),
            let end = stat.lastIndex(of: ")")
        else { return nowNanoseconds }
        let fields = stat[stat.index(after: end)...].split(separator: " ")
        guard fields.count > 19, let ticks = UInt64(fields[19]) else { return nowNanoseconds }
        return ticks * (1_000_000_000 / UInt64(sysconf(Int32(_SC_CLK_TCK))))
    }
}
