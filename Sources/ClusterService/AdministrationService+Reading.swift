internal import Bytes
internal import Orchestration
internal import Vocabulary

/// Parts of the applied state that requests read, without a copy of the state.
///
/// A copy counts references to all its parts. A short view query needs the parts below several times.
extension AdministrationService {
    /// The revision of a bucket's cluster map; `epoch` is compared first.
    package struct MapRevision: Equatable, Sendable {
        package let epoch: UInt64
        package let revision: UInt64

        package init(epoch: UInt64, revision: UInt64) {
            self.epoch = epoch
            self.revision = revision
        }
    }

    /// The revision of the map of the bucket with this UUID; nil if there is no such bucket.
    package func mapRevision(ofBucket uuid: String) -> MapRevision? {
        core.withLock { core in
            guard let place = core.state.buckets.firstIndex(where: { $0.settings.uuid == uuid })
            else { return nil }
            return MapRevision(
                epoch: core.state.revEpoch,
                revision: core.state.buckets[place].rev
            )
        }
    }

    /// The UUID of the bucket `name`, if it has the design document; nil if there is no such bucket or
    /// document.
    ///
    /// - Parameters:
    ///   - name: The bucket's name.
    ///   - document: The design document's name, without `_design/`.
    /// - Returns: The UUID.
    package func uuid(ofBucket name: String, withDesignDocument document: String) -> String? {
        core.withLock { core in
            guard let place = core.state.buckets.firstIndex(where: { $0.settings.name == name }),
                core.state.buckets[place].designDocuments.contains(where: { $0.isNamed(document) })
            else { return nil }
            return core.state.buckets[place].settings.uuid
        }
    }

    /// How many nodes the cluster has beside this one.
    package var otherNodesCount: Int { core.withLock { max(0, $0.state.nodes.count - 1) } }

    /// Whether the cluster has several nodes, so that this node's state may be behind.
    package var hasSeveralNodes: Bool { otherNodesCount > 0 }
}
