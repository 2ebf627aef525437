internal import Bytes
internal import ScriptProcesses
internal import Seams
internal import ViewService

/// Whether functions can run: their program is beside the server, and the kernel filters its system calls.
///
/// Every query asks, and each check is a system call. So a check that found the program holds for a
/// second; one that did not find it is repeated at once.
final class ScriptPrograms: Sendable {
    private static let checkedNanoseconds: UInt64 = 1_000_000_000

    /// Whether functions run in processes whose system calls are not filtered.
    let allowsUnfiltered: Bool
    private let environment: Environment
    /// Until when the program counts as present.
    private let presentUntil = Guarded<UInt64>(0)

    init(_ environment: Environment, allowsUnfiltered: Bool) {
        self.environment = environment
        self.allowsUnfiltered = allowsUnfiltered
    }

    /// Why functions cannot run, as a sentence for an operator; nil if they can.
    var obstacle: String? {
        let now = environment.time.monotonicNanoseconds()
        if now < presentUntil.withLock({ $0 }) { return nil }
        let children = environment.children
        let name = ScriptPool.programName
        if let error = children.obstacle(to: name, mustFilter: !allowsUnfiltered) {
            let cure =
                error.code == .unfiltered
                ? " Allow the system call seccomp (a container's profile may refuse it), or start the"
                    + " node with --unfiltered-scripts: then functions of views may do what its user may."
                : ""
            return "Views do not work on this node: \(error.description).\(cure)"
        }
        presentUntil.withLock { $0 = now + ScriptPrograms.checkedNanoseconds }
        return nil
    }
}
