package import Bytes

/// The histograms of latencies by their names in `/metrics`: those of Couchbase where it has the same.
package enum LatencyFamily: String, CaseIterable, Sendable {
    case commands = "kv_cmd_duration_seconds"
    case backgroundWait = "kv_bg_wait_seconds"
    case backgroundLoad = "kv_bg_load_seconds"
    case disk = "kv_disk_seconds"
    case syncWrites = "kv_sync_write_commit_duration_seconds"
    case replication = "kv_replication_acknowledgement_seconds"
    case viewQueries = "view_query_seconds"
    case requests = "cm_http_requests_seconds"

    /// The measured time and its accuracy, for HELP.
    package var help: String {
        switch self {
        case .commands:
            "Time from the read that received a command until its answer was ready to send, by opcode. "
                + "Commands of one read that need not wait have the time of the whole read."
        case .backgroundWait: "Time of reads from disk in the queue of their lane."
        case .backgroundLoad: "Time of reads from disk on their lane."
        case .disk: "Time of commits to disk, each of many changes."
        case .syncWrites: "Time from the preparation of a durable write until its commit, by level."
        case .replication:
            "Time from encoding a change for a replica until the replica's acknowledgement; one change at a "
                + "time of each vBucket and replica is measured."
        case .viewQueries:
            "Time of view queries that this node was asked, by phase: queue until they begin, open until "
                + "all nodes have begun to answer, rows until the last row, which includes the client's reading."
        case .requests:
            "Time from a complete request until its reply begins, by class of route; logins are checked before."
        }
    }
}

/// The latencies of a bucket that are not those of commands.
package enum Latency: Int, CaseIterable, Sendable {
    case backgroundWait, backgroundLoad, commit
    case majority, majorityAndPersistOnActive, persistToMajority
    case replication

    /// The latency of durable writes of a level.
    package init(_ level: DurabilityLevel) {
        self =
            switch level {
            case .majority: .majority
            case .majorityAndPersistOnActive: .majorityAndPersistOnActive
            case .persistToMajority: .persistToMajority
            }
    }

    package var family: LatencyFamily {
        switch self {
        case .backgroundWait: .backgroundWait
        case .backgroundLoad: .backgroundLoad
        case .commit: .disk
        case .majority, .majorityAndPersistOnActive, .persistToMajority: .syncWrites
        case .replication: .replication
        }
    }

    /// The label besides that of the bucket, as Couchbase has it; nil if there is none.
    package var label: (name: String, value: String)? {
        switch self {
        case .backgroundWait, .backgroundLoad, .replication: nil
        case .commit: ("op", "commit")
        case .majority: ("level", "majority")
        case .majorityAndPersistOnActive: ("level", "majority_and_persist_on_master")
        case .persistToMajority: ("level", "persist_to_majority")
        }
    }
}

/// A histogram with its labels.
package struct LatencyReading: Sendable {
    package let family: LatencyFamily
    package let labels: [(name: String, value: String)]
    package let histogram: LatencyHistogram

    package init(
        _ family: LatencyFamily,
        _ labels: [(name: String, value: String)],
        histogram: LatencyHistogram
    ) {
        self.family = family
        self.labels = labels
        self.histogram = histogram
    }
}
