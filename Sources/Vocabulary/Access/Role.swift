/// A role of Couchbase Server that a local user can have.
///
/// The raw values are the names of the REST API. They are also in the agreed state, so a case is
/// never renamed.
package enum Role: String, CaseIterable, Sendable {
    case admin
    case readOnlyAdmin = "ro_admin"
    case clusterAdmin = "cluster_admin"
    case bucketAdmin = "bucket_admin"
    case bucketFullAccess = "bucket_full_access"
    case viewsAdmin = "views_admin"
    case viewsReader = "views_reader"
    case dataReader = "data_reader"
    case dataWriter = "data_writer"
    case dataDCPReader = "data_dcp_reader"
    case externalStatsReader = "external_stats_reader"

    /// Granted for one bucket or for every bucket; the other roles are granted for the cluster.
    package var isScoped: Bool {
        switch self {
        case .admin, .readOnlyAdmin, .clusterAdmin, .externalStatsReader: false
        case .bucketAdmin, .bucketFullAccess, .viewsAdmin, .viewsReader, .dataReader, .dataWriter,
            .dataDCPReader:
            true
        }
    }

    /// The name that Couchbase's tools display.
    package var title: String {
        switch self {
        case .admin: "Full Admin"
        case .readOnlyAdmin: "Read-Only Admin"
        case .clusterAdmin: "Cluster Admin"
        case .bucketAdmin: "Bucket Admin"
        case .bucketFullAccess: "Application Access"
        case .viewsAdmin: "Views Admin"
        case .viewsReader: "Views Reader"
        case .dataReader: "Data Reader"
        case .dataWriter: "Data Writer"
        case .dataDCPReader: "Data DCP Reader"
        case .externalStatsReader: "External Stats Reader"
        }
    }

    package var description: String {
        switch self {
        case .admin: "Every operation on the cluster and its data, including users."
        case .readOnlyAdmin: "Reads all settings and statistics. Reads no documents."
        case .clusterAdmin: "Manages nodes, settings and buckets. No access to users or documents."
        case .bucketAdmin: "Manages one bucket. No access to its documents and views."
        case .bucketFullAccess: "Reads, writes, streams, queries and flushes one bucket."
        case .viewsAdmin: "Manages and queries the views of one bucket. Reads its documents."
        case .viewsReader: "Queries the views of one bucket. Reads its documents."
        case .dataReader: "Reads the documents of one bucket."
        case .dataWriter: "Writes and deletes the documents of one bucket. Reads none."
        case .dataDCPReader: "Streams the changes of one bucket. Reads its documents."
        case .externalStatsReader: "Reads the metrics of all nodes, for Prometheus. Nothing else."
        }
    }
}
