import Foundation
import Seams
import Server

/// The line on standard output by which the parent process learns that the node serves.
enum ReadyNotice {
    private struct Line: Encodable {
        var event = "ready"
        let kv: UInt16
        let kvTLS: UInt16?
        let admin: UInt16
        let adminTLS: UInt16?
        let views: UInt16?
        let viewsTLS: UInt16?
        let memcached: UInt16?
        /// The path of the file with the token for the first change; nil if the node has a cluster.
        let initToken: String?
        let ms: UInt64

        private enum CodingKeys: String, CodingKey {
            case event
            case kv
            case kvTLS = "kv_tls"
            case admin
            case adminTLS = "admin_tls"
            case views
            case viewsTLS = "views_tls"
            case memcached
            case initToken
            case ms
        }

        /// Encodes a missing listener as null, so that every line has the same fields.
        func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(event, forKey: .event)
            try container.encode(kv, forKey: .kv)
            try container.encode(kvTLS, forKey: .kvTLS)
            try container.encode(admin, forKey: .admin)
            try container.encode(adminTLS, forKey: .adminTLS)
            try container.encode(views, forKey: .views)
            try container.encode(viewsTLS, forKey: .viewsTLS)
            try container.encode(memcached, forKey: .memcached)
            try container.encode(initToken, forKey: .initToken)
            try container.encode(ms, forKey: .ms)
        }
    }

    static func write(
        _ addresses: Node.Addresses,
        _ ports: Node.HTTPPorts,
        initToken: String?,
        startedNanoseconds: UInt64
    ) {
        let now = ProcessStart.nowNanoseconds
        let line = Line(
            kv: addresses.kv.port,
            kvTLS: addresses.kvTLS?.port,
            admin: ports.admin,
            adminTLS: ports.adminTLS,
            views: ports.views,
            viewsTLS: ports.viewsTLS,
            memcached: addresses.memcached?.port,
            initToken: initToken,
            ms: (now - min(startedNanoseconds, now)) / 1_000_000
        )
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let json = try? encoder.encode(line) else {
            preconditionFailure("numbers and a word can be encoded")
        }
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
