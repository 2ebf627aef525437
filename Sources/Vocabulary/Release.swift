/// The versions that this server reports.
///
/// Clients branch on Couchbase's version number, so the server reports the Couchbase version whose
/// behaviour it has; `/pools` and `/versions` add Divan's own.
package enum Release {
    package static let version = "0.1.0"
    package static let couchbaseVersion = "7.6.2-0000-enterprise"
    /// 7.6, as major * 65 536 + minor.
    package static let clusterCompatibility = 458_758

    /// The remedy for a data directory of another format; a sentence for an operator.
    package static let formatCure =
        "Formats change until \(version) is released: start with an empty directory, or copy the "
        + "documents with the program that wrote it."

    /// Why stored bytes of another format are refused, and what to do.
    ///
    /// - Parameters:
    ///   - subject: A path, or the name of what has the format.
    ///   - format: The format of the bytes.
    ///   - expected: The format that this program reads.
    /// - Returns: Sentences for an operator.
    package static func refusal(of subject: String, format: Int, expected: Int) -> String {
        "\(subject) was written by another version of Divan (format \(format), this program reads "
            + "\(expected)). \(formatCure)"
    }
}
