package import Bytes

/// The newest map a client has seen, wherever it came from.
///
/// Configurations arrive from bootstrap, in NOT_MY_VBUCKET answers, as pushes and by asking; they
/// overtake each other, so only the revision says which one counts.
///
/// - The revision of `current` only grows.
package struct ClusterMapCache: Sendable {
    package enum Outcome: Hashable, Sendable {
        /// It is the newest so far and is `current` now.
        case taken
        /// It is not newer than what is known.
        case known
        /// It cannot be used; the sentence says why.
        case refused(String)
    }

    package let bucket: String
    package private(set) var current: ClusterMap?
    /// How many maps were taken.
    package private(set) var changes = 0

    package init(bucket: String) {
        self.bucket = bucket
    }

    /// Takes in a configuration that came from `host`.
    package mutating func take(_ json: ByteView, host: String) -> Outcome {
        do throws(ClusterMap.Nonsense) {
            return take(try ClusterMap(json, host: host))
        } catch {
            return .refused(error.description)
        }
    }

    package mutating func take(_ map: ClusterMap) -> Outcome {
        guard map.bucket == bucket else {
            return .refused("the configuration is of bucket \(map.bucket), not of \(bucket)")
        }
        if let current, current.revision >= map.revision { return .known }
        current = map
        changes += 1
        return .taken
    }
}
