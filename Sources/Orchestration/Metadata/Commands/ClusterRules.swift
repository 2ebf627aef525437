/// The rules that an entry of the log is judged by.
///
/// Every node must make the same state from the same log, also from entries that an earlier release
/// proposed. So an entry keeps the rules of the release that proposed it: its envelope names them.
package enum ClusterRules: UInt8, Sendable {
    /// Each object by itself: what releases before the joint rules proposed.
    case perObject = 1
    /// Also the rules over several objects (`ClusterState.jointRefusal(of:)`).
    case joint = 2

    /// What this release proposes.
    package static let current = ClusterRules.joint
}
