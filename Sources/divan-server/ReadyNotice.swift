import Foundation
import Seams
import Server

/// The line on standard output by which the parent process learns that the node serves.
enum ReadyNotice {
    /// Writes the line.
    ///
    /// `initToken` is the path of the file with the token for the first change; nil if the node has a cluster.
    static func write(
        _ addresses: Node.Addresses,
        _ ports: Node.HTTPPorts,
        initToken: String?,
        startedNanoseconds: UInt64
    ) {
        let now = ProcessStart.nowNanoseconds
        // A missing listener is null, so that every line has the same fields.
        let members: [String: Any?] = [
            "event": "ready",
            "kv": addresses.kv.port,
            "kv_tls": addresses.kvTLS?.port,
            "admin": ports.admin,
            "admin_tls": ports.adminTLS,
            "views": ports.views,
            "views_tls": ports.viewsTLS,
            "memcached": addresses.memcached?.port,
            "initToken": initToken,
            "ms": (now - min(startedNanoseconds, now)) / 1_000_000,
        ]
        let object = members.mapValues { $0 ?? NSNull() }
        let options: JSONSerialization.WritingOptions = [.sortedKeys, .withoutEscapingSlashes]
        guard let json = try? JSONSerialization.data(withJSONObject: object, options: options)
        else { preconditionFailure("numbers and a word can be encoded") }
        FileHandle.standardOutput.write(json + Data("\n".utf8))
    }
}

/// The kernel's start time of this process, which includes loading the program.
enum ProcessStart {
    static var nowNanoseconds: UInt64 {
        var time = timespec()
        clock_gettime(CLOCK_BOOTTIME, &time)
        return UInt64(time.tv_sec) * 1_000_000_000 + UInt64(time.tv_nsec)
    }

    /// Nanoseconds from boot to the process's start, from field 22 of `/proc/self/stat`.
    ///
    /// The field has whole clock ticks; the tick's end is used, so a duration is never overstated.
    /// The current time if the file cannot be read.
    static var nanoseconds: UInt64 {
        guard let stat = try? String(contentsOfFile: "/proc/self/stat", encoding: .utf8),
            let end = stat.lastIndex(of: ")")
        else { return nowNanoseconds }
        let fields = stat[stat.index(after: end)...].split(separator: " ")
        guard fields.count > 19, let ticks = UInt64(fields[19]) else { return nowNanoseconds }
        return (ticks + 1) * (1_000_000_000 / UInt64(sysconf(Int32(_SC_CLK_TCK))))
    }
}
