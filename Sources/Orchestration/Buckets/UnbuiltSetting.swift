/// A field of Couchbase Server's forms whose feature is not built.
///
/// The default is accepted, because tools send it. Every other value is refused by the field's name: a
/// setting that is accepted without effect would be believed.
package struct UnbuiltSetting: Sendable {
    package let field: String
    /// The values that are accepted: the texts of the default.
    package let accepted: [String]
    /// Why another value is refused, as a sentence.
    package let reason: String

    package init(_ field: String, _ accepted: [String], _ reason: String) {
        self.field = field
        self.accepted = accepted
        self.reason = reason
    }

    /// The errors of the fields that a form has with other values.
    package static func flaws(
        of parameters: FormParameters,
        _ settings: [UnbuiltSetting]
    ) -> [FieldError] {
        settings.compactMap { setting in
            let values = parameters.all(setting.field)
            guard values.contains(where: { !setting.accepted.contains($0) }) else { return nil }
            let value = setting.accepted.first ?? ""
            let only = value.isEmpty ? "Leave it empty." : "The only value is \(value)."
            return FieldError(setting.field, "\(setting.reason). \(only)")
        }
    }

    private static let no = ["false", "0"]
    private static let yes = ["true", "1"]

    /// Of buckets; the defaults are those of Couchbase Server 7.6 and 8.
    package static let ofBuckets: [UnbuiltSetting] =
        history + recovery + versions + encryption + memory + flow
        + [
            UnbuiltSetting(
                "authType",
                ["sasl"],
                "passwordless=1 makes a bucket that needs no password"
            ),
            UnbuiltSetting("rank", ["0"], "All buckets have the same priority"),
            UnbuiltSetting("threadsNumber", ["3"], "All buckets have the same priority"),
            UnbuiltSetting(
                "compressionMode",
                ["passive"],
                "Values are stored as clients read them, never compressed"
            ),
        ]

    private static let history = [
        UnbuiltSetting("historyRetentionSeconds", ["0"], noHistory),
        UnbuiltSetting("historyRetentionBytes", ["0"], noHistory),
        UnbuiltSetting("historyRetentionCollectionDefault", yes, noHistory),
    ]
    private static let noHistory = "Old versions of documents are not kept"

    private static let recovery = [
        UnbuiltSetting("pitrEnabled", no, noRecovery),
        UnbuiltSetting("pitrGranularity", ["600"], noRecovery),
        UnbuiltSetting("pitrMaxHistoryAge", ["86400"], noRecovery),
        UnbuiltSetting("continuousBackupEnabled", no, noRecovery),
        UnbuiltSetting("continuousBackupInterval", ["2"], noRecovery),
        UnbuiltSetting("continuousBackupLocation", [""], noRecovery),
        UnbuiltSetting("continuousBackupRetentionPeriod", ["1"], noRecovery),
    ]
    private static let noRecovery =
        "There is no recovery to a point in time: back up as docs/operations.md has it"

    private static let versions = [
        UnbuiltSetting("enableCrossClusterVersioning", no, noReplication),
        UnbuiltSetting("crossClusterVersioningEnabled", no, noReplication),
        UnbuiltSetting("versionPruningWindowHrs", ["720"], noReplication),
        UnbuiltSetting("driftAheadThresholdMs", ["5000"], noReplication),
        UnbuiltSetting("driftBehindThresholdMs", ["5000"], noReplication),
        UnbuiltSetting("invalidHlcStrategy", ["error"], noReplication),
        UnbuiltSetting("hlcMaxFutureThreshold", ["3900"], noReplication),
    ]
    private static let noReplication = "There is no replication to other clusters"

    private static let encryption = [
        UnbuiltSetting("encryptionAtRestKeyId", ["-1"], noEncryption),
        UnbuiltSetting("encryptionAtRestDekRotationInterval", ["2592000"], noEncryption),
        UnbuiltSetting("encryptionAtRestDekLifetime", ["31536000"], noEncryption),
    ]
    private static let noEncryption = "Files are not encrypted: use an encrypted file system"

    private static let memory = [
        UnbuiltSetting("memoryLowWatermark", ["75"], fixed),
        UnbuiltSetting("memoryHighWatermark", ["85"], fixed),
        UnbuiltSetting("expiryPagerSleepTime", ["600"], fixed),
        UnbuiltSetting("accessScannerEnabled", yes, fixed),
        UnbuiltSetting("warmupBehavior", ["background"], fixed),
        UnbuiltSetting("workloadPatternDefault", ["mixed"], fixed),
        UnbuiltSetting("magmaMaxShards", ["128"], fixed),
        UnbuiltSetting("magmaKeyTreeDataBlockSize", ["4096"], fixed),
        UnbuiltSetting("magmaSeqTreeDataBlockSize", ["4096"], fixed),
    ]
    private static let flow = [
        UnbuiltSetting("durabilityImpossibleFallback", ["disabled"], fixed),
        UnbuiltSetting("dcpConnectionsBetweenNodes", ["1"], fixed),
        UnbuiltSetting("throttleReserved", ["0"], fixed),
    ]
    private static let fixed = "This setting cannot be changed here"

    /// The memory of services that do not exist, with what `/pools/default` shows.
    package static let quotas: [UnbuiltSetting] = [
        UnbuiltSetting("indexMemoryQuota", ["512"], "There is no index service"),
        UnbuiltSetting("ftsMemoryQuota", ["512"], "There is no search service"),
        UnbuiltSetting("cbasMemoryQuota", ["1024"], "There is no analytics service"),
        UnbuiltSetting("eventingMemoryQuota", ["256"], "There is no eventing service"),
        UnbuiltSetting("queryMemoryQuota", ["0"], "There is no query service"),
    ]

    /// Of a new cluster.
    package static let ofClusters: [UnbuiltSetting] = [
        UnbuiltSetting("nodeEncryption", ["off"], "Connections between nodes are always encrypted"),
        UnbuiltSetting("indexerStorageMode", [""], "There is no index service"),
        UnbuiltSetting("allowedHosts", ["*"], "An administrator may add any node"),
    ]
}
