internal import Bytes
internal import Orchestration
package import Seams
package import Vocabulary

/// Parts of the applied state that requests read, without a copy of the state.
///
/// A copy counts references to all its parts. A short view query needs the parts below several times.
extension Cluster {
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

    /// A node that is silent for this time is shown as down, without statistics.
    private static var silenceNanosecondsMax: UInt64 { 1_500_000_000 }

    func isSilent(_ node: NodeNumber) -> Bool {
        member.beats.silence(of: node) >= Self.silenceNanosecondsMax
    }

    /// The current leader; nil if this node knows of none.
    package var orchestratorNode: NodeNumber? { member.driver.status.leader }

    /// Random hexadecimal digits for sessions and tokens, two for each byte.
    package func token(bytes: Int) -> String { environment.entropy.hex(bytes) }

    package var adminPort: UInt16 { state.node(number: thisNode)?.ports.admin ?? 0 }

    /// The file system that holds the data, in bytes; nil if the disk does not report it.
    package var diskSpace: (free: UInt64, total: UInt64)? {
        try? environment.disk.space(settings.directory)
    }

    /// Runs `work` on the control lane after a pause; never if the lane stands still or is stopped.
    package func runOnControl(
        afterNanoseconds pause: UInt64,
        _ work: @escaping @Sendable () -> Void
    ) {
        lane.post(after: pause, work)
    }

    /// The descriptors of this process, which all ports share.
    package var descriptors: Descriptors { environment.descriptors }
}
