internal import Bytes
internal import Seams
internal import ViewService

/// Whether the program that runs functions is beside the server.
///
/// Every query asks, and each check is a system call. So a check that found the program holds for a
/// second; one that did not find it is repeated at once.
final class ScriptPrograms: Sendable {
    private static let checkedNanoseconds: UInt64 = 1_000_000_000

    private let environment: Environment
    /// Until when the program counts as present.
    private let presentUntil = Guarded<UInt64>(0)

    init(_ environment: Environment) {
        self.environment = environment
    }

    /// Why functions cannot run, as a sentence for an operator; nil if they can.
    var obstacle: String? {
        let now = environment.time.monotonicNanoseconds()
        if now < presentUntil.withLock({ $0 }) { return nil }
        if let error = environment.children.obstacle(to: ScriptPool.programName) {
            return "Views do not work on this node: \(error.description)."
        }
        presentUntil.withLock { $0 = now + ScriptPrograms.checkedNanoseconds }
        return nil
    }
}
