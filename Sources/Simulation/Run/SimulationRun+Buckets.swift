internal import Vocabulary

/// The buckets of a run.
extension SimulationRun {
    static func buckets(replicas: Int, _ workload: Workload) -> [BucketSettings] {
        var first = BucketSettings(
            name: "persistent",
            uuid: String(repeating: "0a", count: 16),
            quota: 100 << 20
        )
        first.vBuckets = workload.vBuckets
        first.replicas = replicas
        guard workload.hasEphemeral else { return [first] }
        var second = first
        second.name = "ephemeral"
        second.uuid = String(repeating: "0b", count: 16)
        second.type = .ephemeral
        second.evictionPolicy = .noEviction
        return [first, second]
    }

    /// - Parameters:
    ///   - replicas: Replicas of each vBucket.
    ///   - deleted: How many buckets of this name were created and deleted before.
    /// - Returns: Settings with a UUID of their own.
    static func extraBucket(replicas: Int, after deleted: Int = 0) -> BucketSettings {
        let digits = "\(deleted)"
        var settings = BucketSettings(
            name: extraName,
            uuid: deleted == 0
                ? String(repeating: "0c", count: 16)
                : String(repeating: "c", count: 32 - digits.count) + digits,
            quota: 100 << 20
        )
        settings.vBuckets = 16
        settings.replicas = replicas
        settings.flushEnabled = true
        return settings
    }
}
