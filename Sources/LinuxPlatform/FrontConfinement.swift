internal import CLinux
internal import Glibc

/// The confinement of a front, the program that parses what devices send.
///
/// From the first step on the process opens no file, connects no socket, starts no program, and makes no memory
/// executable. It makes its listeners, and the second step forbids further sockets. Then it accepts connections,
/// and reads and writes what it has open; a `Spawner` starts its children. An attacker who takes the process over
/// has its memory and the connections of its devices.
package enum FrontConfinement {
    /// Confines the process, with all its threads, for good; files are open before.
    ///
    /// - Returns: Why the process is not confined; nil if it is.
    package static func begin() -> String? {
        guard divan_forbid_inspection() == 0 else {
            return "cannot forbid core dumps: \(SystemError.text(errno))"
        }
        return divan_filter_front_system_calls() == 0 ? nil : failure
    }

    /// Forbids further sockets; the listeners are bound before.
    ///
    /// - Returns: Why the process may still make them; nil if it may not.
    package static func finish() -> String? { divan_refuse_listeners() == 0 ? nil : failure }

    /// Why the kernel would refuse that; nil if it would not.
    package static var obstacle: String? { Confinement.obstacleToFilter }

    private static var failure: String { "cannot filter system calls: \(SystemError.text(errno))" }
}
