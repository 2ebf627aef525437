package import Bytes

/// How all nodes update, build and compact the indexes of views; an administrator may change it.
package struct IndexingSettings: Hashable, Sendable, CodedFields {
    package static let parallelIndexersRange = 1...1_024
    package static let fragmentationPercentRange = 2...100
    /// A smaller size would have every index compacted all the time.
    package static let fragmentationBytesMin: UInt64 = 1 << 20

    /// An index is updated after this time, if any change waits (`updateInterval`).
    package var updateIntervalMilliseconds: UInt32 = 5_000
    /// An index is updated when so many changes wait (`updateMinChanges`); 0: only by queries.
    package var updateMinChanges: UInt64 = 5_000
    /// The same of replicas; there are no indexes of replicas.
    package var replicaUpdateMinChanges: UInt64 = 5_000
    /// Indexes that a node builds at once (`maxParallelIndexers`).
    package var parallelIndexersMax: UInt16 = 4
    /// An index is compacted when this percentage of its file is unused; nil: whatever it is.
    package var fragmentationPercent: UInt16? = 30
    /// An index is compacted when so many bytes of its file are unused; nil: whatever it is.
    package var fragmentationBytes: UInt64?

    package init() {}

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&updateIntervalMilliseconds, "update interval")
        try coder.field(&updateMinChanges, "changes before an update")
        try coder.field(&replicaUpdateMinChanges, "changes before an update of a replica")
        try coder.field(&parallelIndexersMax, "parallel indexers")
        try coder.optional(&fragmentationPercent, "fragmentation in percent")
        try coder.optional(&fragmentationBytes, "fragmentation in bytes")
    }
}

/// Replaces the settings of indexes.
package struct IndexingChange: Hashable, Sendable, CodedFields {
    package var settings = IndexingSettings()
    /// The settings that the change is based on; refused if they have changed since.
    package var was = IndexingSettings()

    package init() {}

    package init(_ settings: IndexingSettings, was: IndexingSettings) {
        self.settings = settings
        self.was = was
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&settings, "settings")
        try coder.field(&was, "settings before")
    }
}

/// Applies changes of the settings of indexes.
extension ClusterState {
    mutating func set(_ change: IndexingChange) -> ClusterOutcome {
        guard change.was == indexing else { return .refused(.changedMeanwhile) }
        indexing = change.settings
        return .applied([.settingsChanged])
    }
}
