package import Bytes

/// The newest map that a client has received, from any source.
///
/// Configurations arrive at login, in NOT_MY_VBUCKET answers, as pushes and on request. They may
/// overtake each other, so only their revision decides which one is used.
///
/// - The revision of `current` only increases.
package struct ClusterMapCache: Sendable {
    package enum Outcome: Hashable, Sendable {
        /// The map is the newest and is now `current`.
        case applied
        /// The map is not newer than `current`.
        case known
        /// The map is unusable; the sentence says why.
        case refused(String)
    }

    package let bucket: String
    private let isSecured: Bool
    package private(set) var current: ClusterMap?
    /// How many maps were applied.
    package private(set) var changes = 0

    /// A cache without a map; `isSecured` as in `ClusterMap`.
    package init(bucket: String, isSecured: Bool = false) {
        self.bucket = bucket
        self.isSecured = isSecured
    }

    /// Applies a configuration that `host` has sent, if it is newer.
    package mutating func apply(_ json: ByteView, host: String) -> Outcome {
        do throws(ClusterMap.InvalidMap) {
            return apply(try ClusterMap(json, host: host, isSecured: isSecured))
        } catch {
            return .refused(error.description)
        }
    }

    /// Applies a map, if it is newer.
    package mutating func apply(_ map: ClusterMap) -> Outcome {
        guard map.bucket == bucket else {
            return .refused("the configuration is of bucket \(map.bucket), not of \(bucket)")
        }
        if let current, current.revision >= map.revision { return .known }
        current = map
        changes += 1
        return .applied
    }
}
