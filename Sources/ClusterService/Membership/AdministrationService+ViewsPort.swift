internal import Bytes
internal import Orchestration
internal import Seams
internal import Vocabulary

/// Announces the port on which this node serves views.
///
/// The entries that add a node, or set its address, have no field for this port, because an earlier
/// release may read them. So each node compares its port with the state whenever the nodes of the
/// state change: after its start, after a join, in a new epoch, and when the feature level rises.
extension AdministrationService {
    /// The pause after a proposal that failed, while this node has the state of a minority.
    private static var pauseMilliseconds: UInt64 { 1_000 }

    /// The command by which the state has this node's port for views; nil if the state has it, or
    /// cannot have it yet.
    private var missingViewsPort: ViewsPortChange? {
        let state = state
        guard let port = core.withLock({ $0.address?.ports.views }),
            state.featureLevel >= .designDocuments,
            let own = state.node(number: thisNode), own.ports.views != port
        else { return nil }
        return ViewsPortChange(number: own.number, port: port)
    }

    /// Announces the port for views, if the state does not have it.
    ///
    /// - Throws: `ClusterError` if the cluster does not agree on it.
    func announceViewsPort() async throws(ClusterError) {
        guard let change = missingViewsPort else { return }
        _ = try await member.propose(.setViewsPort(change))
    }

    /// Begins to announce the port for views, if the state does not have it; repeats the proposal
    /// until it has.
    func reconcileViewsPort() {
        guard missingViewsPort != nil else { return }
        let isFirst = core.withLock { core in
            defer { core.address?.isAnnouncingViews = true }
            return core.address?.isAnnouncingViews == false && !core.isStopped
        }
        guard isFirst else { return }
        executor.spawn {
            while !self.core.withLock({ $0.isStopped }), self.missingViewsPort != nil {
                if await self.hasAnnouncedViewsPort() { break }
                await self.member.sleep(milliseconds: Self.pauseMilliseconds)
            }
            self.core.withLock { $0.address?.isAnnouncingViews = false }
            // The state may have changed between the last check and the end of this task.
            self.reconcileViewsPort()
        }
    }

    /// Proposes the port once; false if the state does not have it then.
    private func hasAnnouncedViewsPort() async -> Bool {
        do throws(ClusterError) {
            try await announceViewsPort()
        } catch {
            return false
        }
        return missingViewsPort == nil
    }
}
