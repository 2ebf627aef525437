internal import Orchestration
internal import Seams

/// A requested purge of all tombstones of a bucket, on every node with a part of it.
extension CompactionService {
    /// Starts a purge of the tombstones of any age on all nodes; it continues in the background.
    ///
    /// Consumers of changes that have not read these deletions have to start over.
    ///
    /// - Returns: Done if all nodes have begun, else which have not. Nodes that do not answer delay the
    ///   outcome by two seconds, however many they are.
    package func purgeBucket(_ name: String) async -> BucketOutcome {
        guard let bucket = cluster.state.bucket(named: name) else { return .unknown }
        let answers = await order(PeerKind.purge, bucket)
        guard answers.missing.isEmpty else {
            let names = answers.missingNames
            // Consumers start over because of the nodes that have begun.
            cluster.logEvent(
                .warning,
                .bucket,
                of: name,
                "A purge of all tombstones of bucket \"\(name)\" was requested; \(names) did not begin."
            )
            return .failed(
                "The purge has not begun on \(names): the bucket is being loaded there, or the node "
                    + "does not answer. Retry."
            )
        }
        cluster.logEvent(
            .info,
            .bucket,
            of: name,
            "A purge of all tombstones of bucket \"\(name)\" began."
        )
        return .done
    }
}
