internal import Revisions
internal import Seams
internal import SyncWire
internal import Syncing

/// Runs of a sync function over documents that are stored already.
extension MemoryStore {
    package func reassign(
        _ documents: [[UInt8]],
        by trial: SyncFunction?
    ) async -> [ReassignmentOutcome?] {
        let ids = Set(documents)
        await locks.lock(ids)
        defer { locks.unlock(ids) }
        var found: [(id: [UInt8], document: StoredDocument)] = []
        var calls: [SyncCall] = []
        for id in documents {
            guard let document = document(id) else { continue }
            found.append((id, document))
            calls += Reassignment(of: document).leaves.map { leaf in
                let body = body(of: leaf.id, id, document) ?? RevisionBody()
                return call(of: leaf.id, body, id: id, document: document, context: nil)
            }
        }
        var runs = await (trial ?? function).run(calls)[...]
        var outcomes: [[UInt8]: ReassignmentOutcome] = [:]
        for (id, document) in found {
            var change = Reassignment(of: document)
            let leaves = change.leaves
            let refusal = assign(zip(leaves.map(\.id), runs.prefix(leaves.count)), in: &change)
            runs = runs.dropFirst(leaves.count)
            outcomes[id] = ReassignmentOutcome(isChange: change.isChange, refusal: refusal)
            if trial == nil, change.isChange {
                let write = change.write(at: drawSequence(), timeSaved: time.wallNanoseconds())
                replace(document, by: write, id, expires: document.expires)
            }
        }
        return documents.map { outcomes[$0] }
    }

    /// Sets the results of the runs of a document's leaves.
    ///
    /// - Returns: The first refusal; the run is the administrator's, so that all claims hold.
    private func assign(
        _ runs: some Sequence<(RevisionID, SyncRun)>,
        in change: inout Reassignment
    ) -> Refusal? {
        var refusal: Refusal?
        for (leaf, run) in runs {
            switch SyncDecision(run, for: nil, dialect: rules.dialect) {
            case .accepted(let outcome): change.assign(SyncAssignment(outcome), to: leaf)
            case .refused(let reason):
                // As in Sync Gateway: the revision stays, and no channel has it.
                change.assign(SyncAssignment(), to: leaf)
                refusal = refusal ?? reason
            }
        }
        return refusal
    }
}
