internal import CLinux
internal import Glibc

/// Confines the current process before it runs foreign code.
///
/// Two steps, because an engine reserves memory, reads files and starts threads when it starts, none
/// of which the second step allows.
package enum Confinement {
    /// Removes what the process inherited: capabilities, the environment, blocked signals, and all
    /// descriptors except standard error and `descriptor`.
    ///
    /// The kernel ends the process when the thread that started it ends. A crash ends it without a
    /// report.
    ///
    /// - Returns: Why the process is not confined; nil if it is.
    package static func begin(
        keeping descriptor: Int32,
        environment: [(name: String, value: String)]
    ) -> String? {
        guard divan_close_descriptors_except(descriptor) == 0 else {
            return failure("close inherited descriptors")
        }
        guard divan_bind_to_parent() == 0 else { return failure("follow the parent process") }
        guard divan_drop_capabilities() == 0 else { return failure("drop capabilities") }
        guard divan_limit_files(16) == 0 else { return failure("limit files and core dumps") }
        divan_reset_signals()
        clearenv()
        for (name, value) in environment { setenv(name, value, 1) }
        return nil
    }

    /// Limits the memory that the process may allocate from now on.
    ///
    /// The limit counts writable private memory, used or not; beyond it, allocations fail.
    ///
    /// - Returns: Why there is no limit; nil if there is one.
    package static func limitFurtherMemory(bytes: UInt64) -> String? {
        divan_limit_further_data(bytes) == 0 ? nil : failure("limit the memory")
    }

    /// Whether the limits of the process allow such an allocation now.
    package static func canAllocate(bytes: Int) -> Bool {
        let (access, kind) = (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)
        guard let base = mmap(nil, bytes, access, kind, -1, 0), base != MAP_FAILED else {
            return false
        }
        munmap(base, bytes)
        return true
    }

    /// Makes the process the first to be ended when the machine's memory is short.
    ///
    /// - Returns: Why the kernel does not prefer it; nil if it does.
    package static func raiseOutOfMemoryScore() -> String? {
        divan_raise_oom_score() == 0 ? nil : failure("raise oom_score_adj")
    }

    /// Allows no system calls except those for memory, threads, time and open descriptors, for good.
    ///
    /// - Returns: Why system calls are not filtered; nil if they are.
    package static func filterSystemCalls() -> String? {
        divan_filter_system_calls() == 0 ? nil : failure("filter system calls")
    }

    /// Why the kernel would refuse such a filter; nil if it would accept one.
    static var obstacleToFilter: String? {
        divan_can_filter_system_calls() == 0 ? nil : SystemError.text(errno)
    }

    private static func failure(_ attempt: String) -> String {
        "cannot \(attempt): \(SystemError.text(errno))"
    }
}
