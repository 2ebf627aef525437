package import Bytes

/// The features that HELLO negotiates, by their codes.
package enum Feature: UInt16, CaseIterable, Sendable {
    case tls = 0x02
    case tcpNoDelay = 0x03
    case mutationSeqno = 0x04
    case tcpDelay = 0x05
    case xattr = 0x06
    case extendedErrors = 0x07
    case selectBucket = 0x08
    case snappy = 0x0a
    case json = 0x0b
    case duplex = 0x0c
    case clusterMapNotification = 0x0d
    case unorderedExecution = 0x0e
    case tracing = 0x0f
    case alternativeRequest = 0x10
    case syncReplication = 0x11
    case collections = 0x12
    case snappyEverywhere = 0x13
    case preserveTTL = 0x14
    case virtualXattr = 0x15
    case pointInTimeRecovery = 0x16
    case createAsDeleted = 0x17
    case subdocDocumentMacro = 0x18
    case subdocReplaceBodyWithXattr = 0x19
    case reportUnitUsage = 0x1a
    case nonBlockingThrottle = 0x1b
    case subdocReplicaRead = 0x1c
    case clusterConfigWithKnownVersion = 0x1d
    case dedupeNotMyVBucketConfig = 0x1e
    case clusterMapNotificationBrief = 0x1f
    case subdocManyXattrKeys = 0x20
    case subdocBinaryXattr = 0x21
}

/// The features of one connection: a bit per code, since every code is below 64.
package struct FeatureSet: Equatable, Sendable {
    @usableFromInline package private(set) var bits: UInt64 = 0

    package init() {}

    package init(_ features: [Feature]) {
        for feature in features { insert(feature) }
    }

    /// The features in a HELLO's list, without unknown codes; nil if the length is odd.
    package init?(_ list: ByteView) {
        guard list.count % 2 == 0 else { return nil }
        for offset in stride(from: 0, to: list.count, by: 2) {
            let code = list.bigEndian(at: offset, as: UInt16.self)
            if let feature = Feature(rawValue: code) { insert(feature) }
        }
    }

    package func contains(_ feature: Feature) -> Bool { bits >> feature.rawValue & 1 == 1 }

    /// `contains(.snappy)` without a call: every GET asks it.
    @inlinable package var hasSnappy: Bool { bits & 1 << 0x0a != 0 }

    package mutating func insert(_ feature: Feature) { bits |= 1 << feature.rawValue }

    package mutating func remove(_ feature: Feature) { bits &= ~(1 << feature.rawValue) }

    package var features: [Feature] { Feature.allCases.filter(contains) }

    /// The features of both sides; nil for a contradictory request (answer 0x04).
    ///
    /// Pushed cluster maps need a duplex connection; if a client requests both kinds of push, it
    /// gets the brief one, which has only the revision.
    package static func agreed(requested: FeatureSet, offered: FeatureSet) -> FeatureSet? {
        let wantsPush =
            requested.contains(.clusterMapNotification)
            || requested.contains(.clusterMapNotificationBrief)
        guard !wantsPush || requested.contains(.duplex) else { return nil }
        var agreed = FeatureSet()
        agreed.bits = requested.bits & offered.bits
        if agreed.contains(.clusterMapNotificationBrief) { agreed.remove(.clusterMapNotification) }
        return agreed
    }

    /// Appends the list of a HELLO request.
    package func append(to writer: ByteWriter) {
        for feature in features { writer.append(bigEndian: feature.rawValue) }
    }

    /// Appends the list of a HELLO response: in the order of the request's `list`.
    package func append(inOrderOf list: ByteView, to writer: ByteWriter) {
        var left = self
        for offset in stride(from: 0, to: list.count - list.count % 2, by: 2) {
            let code = list.bigEndian(at: offset, as: UInt16.self)
            guard let feature = Feature(rawValue: code), left.contains(feature) else { continue }
            left.remove(feature)
            writer.append(bigEndian: code)
        }
    }
}
