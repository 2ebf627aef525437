internal import Glibc

/// Notifies the service manager that started this process and waits for it (systemd,
/// `Type=notify`): each is one datagram to the socket that `NOTIFY_SOCKET` names.
///
/// Without libsystemd: the protocol is stable and a page long (sd_notify(3)).
package struct ServiceNotifier: Sendable {
    /// An event that the manager is told.
    package enum Notification: String, Sendable {
        case ready = "READY=1"
        case stopping = "STOPPING=1"
        /// The process works; without one in each `watchdogNanoseconds` the manager ends it.
        case alive = "WATCHDOG=1"
    }

    private let descriptor: Int32
    private let address: [UInt8]
    /// How long the manager waits for `alive`; nil if it does not.
    package let watchdogNanoseconds: UInt64?

    /// The notifier of this process; nil if no manager waits, or its socket is not one of this machine.
    ///
    /// The variables are removed: child processes are not the service.
    package static func fromEnvironment() -> ServiceNotifier? {
        defer {
            for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"] { unsetenv(name) }
        }
        guard let path = variable("NOTIFY_SOCKET"), let address = socketAddress(path) else {
            return nil
        }
        let type = Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
        let descriptor = socket(AF_UNIX, type, 0)
        guard descriptor >= 0 else { return nil }
        var watchdog = variable("WATCHDOG_USEC").flatMap { UInt64($0) }
        if let process = variable("WATCHDOG_PID"), process != String(getpid()) { watchdog = nil }
        return ServiceNotifier(
            descriptor: descriptor,
            address: address,
            watchdogNanoseconds: watchdog.flatMap { $0 > 0 ? $0 &* 1_000 : nil }
        )
    }

    /// Sends a notification; false if the manager did not receive it.
    @discardableResult
    package func notify(_ notification: Notification) -> Bool {
        let text = Array(notification.rawValue.utf8)
        return address.withUnsafeBytes { bytes in
            guard let base = bytes.baseAddress else { return false }
            let place = base.assumingMemoryBound(to: sockaddr.self)
            let sent = sendto(
                descriptor,
                text,
                text.count,
                Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT),
                place,
                socklen_t(bytes.count)
            )
            return sent == text.count
        }
    }

    private static func variable(_ name: String) -> String? {
        getenv(name).map { String(cString: $0) }
    }

    /// A `sockaddr_un` of exactly the path's length; nil unless the path is absolute or, with `@`, abstract.
    ///
    /// The bytes of an abstract name all count, so there must be no zero behind it.
    private static func socketAddress(_ path: String) -> [UInt8]? {
        var name = Array(path.utf8)
        guard name.count > 1, name.count < 108 else { return nil }
        switch name[0] {
        case UInt8(ascii: "@"): name[0] = 0
        case UInt8(ascii: "/"): name.append(0)
        default: return nil
        }
        let family = withUnsafeBytes(of: sa_family_t(AF_UNIX)) { Array($0) }
        return family + name
    }
}
