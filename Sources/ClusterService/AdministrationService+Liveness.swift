internal import Seams

/// Evidence that the control lane runs.
extension AdministrationService {
    /// Runs `work` on the control lane after a pause; never if the lane stands still or is stopped.
    package func runOnControl(
        afterNanoseconds pause: UInt64,
        _ work: @escaping @Sendable () -> Void
    ) {
        lane.post(after: pause, work)
    }
}
