/// What this server calls itself.
///
/// Clients branch on the version of the server they know, so they are told the one whose behaviour
/// this one has; `/pools` and `/versions` add our own.
package enum Release {
    package static let version = "0.1.0"
    package static let couchbaseVersion = "7.6.2-0000-enterprise"
    /// 7.6, as major * 65 536 + minor.
    package static let clusterCompatibility = 458_758
}
