/// What this program calls itself.
enum Version {
    /// Divan's own.
    static let text = "0.1.0"
    /// What clients of Couchbase branch on.
    static let compatible = "7.6.2-0000-enterprise"
}
