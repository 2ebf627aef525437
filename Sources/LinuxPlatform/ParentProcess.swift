internal import CLinux
internal import Glibc

/// The process that started this one.
package enum ParentProcess {
    /// The number of this process, for `follow` in the processes that it starts.
    package static var ownNumber: Int32 { getpid() }

    /// Lets the kernel end this process with SIGKILL when the thread that started it ends, even if
    /// that is killed.
    ///
    /// So the parent must start this process in a thread that lives as long as itself.
    ///
    /// - Parameter number: The parent's process number.
    /// - Returns: Why this process would run on without it; nil if it does not.
    package static func follow(_ number: Int32) -> String? {
        guard divan_bind_to_parent() == 0 else {
            return "cannot follow the parent process: \(SystemError.text(errno))"
        }
        // If the parent has ended before the request above, no signal comes any more.
        return getppid() == number ? nil : "the parent process \(number) has ended"
    }
}
