/// The versions that this server reports.
///
/// Clients branch on Couchbase's version number, so the server reports the Couchbase version whose
/// behaviour it has; `/pools` and `/versions` add Divan's own.
package enum Release {
    package static let version = "0.1.0"
    package static let couchbaseVersion = "7.6.2-0000-enterprise"
    /// 7.6, as major * 65 536 + minor.
    package static let clusterCompatibility = 458_758
}
