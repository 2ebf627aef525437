/// A step in the evolution of everything that nodes exchange or keep in common: peer messages, log
/// commands and shared formats ~ cluster version.
///
/// A release announces the highest level that it understands. The cluster agrees on the lowest level
/// that all its members announce, and uses a feature only from that feature's level on. So members
/// of two releases can form one cluster while an operator upgrades it node by node.
///
/// - The agreed level never falls. A node that announces less is refused.
/// - From the first release on, a number is never reused, and each new one has a name that states what
///   it permits.
package struct FeatureLevel: Hashable, Comparable, Sendable {
    package let number: UInt16

    package init(_ number: UInt16) {
        self.number = number
    }

    /// Level 0: of a state without nodes, and of an artificial earlier release, which only tests start:
    /// clusters of two releases are tested before there are two releases.
    ///
    /// It lacks the call for a random key (peer call 23) and reads of another node's changes for HTTP
    /// feeds (peer service 6).
    package static let lowest = FeatureLevel(0)

    /// Level 1: all formats of the first release.
    package static let first = FeatureLevel(1)

    /// The highest level that this release understands.
    package static let current = first

    package static func < (one: FeatureLevel, other: FeatureLevel) -> Bool {
        one.number < other.number
    }
}
