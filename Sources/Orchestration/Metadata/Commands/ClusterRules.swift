/// The rules by which a log entry is accepted or refused.
///
/// Every node must derive the same state from the same log, including entries of earlier releases.
/// So an entry keeps the rules of the release that proposed it: its envelope names them.
package enum ClusterRules: UInt8, Sendable {
    /// Each object on its own, as proposed by releases before the joint rules.
    case perObject = 1
    /// Also the rules over several objects (`ClusterState.jointRefusal(of:)`).
    case joint = 2

    /// The rules of this release's proposals.
    package static let current = ClusterRules.joint
}
