internal import Bytes
internal import Revisions
internal import Seams
internal import SyncWire
internal import Syncing

/// The write path: plan, sync function, commit.
extension MemoryStore: RevisionStore {
    package func write(_ writes: [RevisionWrite]) async -> [RevisionOutcome] {
        var outcomes = [RevisionOutcome](
            repeating: .refused(Refusal(500, "The revision was not written")),
            count: writes.count
        )
        var open = Array(writes.indices)
        while !open.isEmpty {
            // One revision of each document in a round, so that those of one document are in order.
            var ids: Set<[UInt8]> = []
            var round: [Int] = []
            var later: [Int] = []
            for index in open {
                if ids.insert(writes[index].document).inserted {
                    round.append(index)
                } else {
                    later.append(index)
                }
            }
            open = later
            await locks.lock(ids)
            for (index, outcome) in zip(round, await writeLocked(round.map { writes[$0] })) {
                outcomes[index] = outcome
            }
            locks.unlock(ids)
        }
        return outcomes
    }

    package func purge(_ documents: [[UInt8]]) async -> [Bool] {
        var found: [Bool] = []
        for id in documents {
            await locks.lock([id])
            found.append(tables.records[id] != nil)
            remove(id)
            locks.unlock([id])
        }
        return found
    }

    /// A write whose revision the sync function validates.
    private struct Planned {
        let index: Int
        let before: StoredDocument?
        let plan: WritePlan
        /// The place of its call.
        let call: Int
        /// The body of the leaf that becomes the winner, and the place of its call.
        let promoted: (body: RevisionBody, call: Int)?
    }

    /// Writes revisions of different documents, which are locked.
    private func writeLocked(_ writes: [RevisionWrite]) async -> [RevisionOutcome] {
        var outcomes: [RevisionOutcome?] = []
        var planned: [Planned] = []
        var calls: [SyncCall] = []
        for (index, write) in writes.enumerated() {
            let before = document(write.document)
            let decision = WritePlan.make(write.request, on: before ?? StoredDocument(), rules)
            switch decision {
            case .refused(let refusal): outcomes.append(.refused(refusal))
            case .known(let revision): outcomes.append(.stored(revision))
            case .write(let plan):
                if let refusal = refusal(of: plan, write) {
                    outcomes.append(.refused(refusal))
                    continue
                }
                outcomes.append(nil)
                let place = calls.count
                calls.append(call(of: plan, write, before))
                let promoted = plan.promoted.map { leaf in
                    let body = body(of: leaf, write.document, before) ?? RevisionBody()
                    let context = write.author?.context
                    calls.append(
                        call(of: leaf, body, id: write.document, document: before, context: context)
                    )
                    return (body, place + 1)
                }
                planned.append(
                    Planned(
                        index: index,
                        before: before,
                        plan: plan,
                        call: place,
                        promoted: promoted
                    )
                )
            }
        }
        let runs = calls.isEmpty ? [] : await function.run(calls)
        var renewed: [PrincipalKey: SyncUser] = [:]
        for one in planned {
            let write = writes[one.index]
            let author = write.author.map { PrincipalKey(.user, $0.user.name) }
            let user = author.flatMap { renewed[$0] } ?? write.author?.user
            let (outcome, changed) = commit(one, write, runs: runs, user: user)
            outcomes[one.index] = outcome
            // Grants of a document to its author count for the next document.
            if let author, changed.contains(author) { renewed[author] = syncUser(author) }
        }
        return outcomes.map { outcome in
            guard let outcome else { preconditionFailure("a write without an outcome") }
            return outcome
        }
    }

    private func refusal(of plan: WritePlan, _ write: RevisionWrite) -> Refusal? {
        if !write.request.isDeleted, let full = fullRefusal { return full }
        return plan.requiredBlobs.first { tables.blobs[$0.digest] == nil }.map {
            .missingBlob($0.name)
        }
    }

    private func commit(
        _ planned: Planned,
        _ write: RevisionWrite,
        runs: [SyncRun],
        user: SyncUser?
    ) -> (RevisionOutcome, changed: Set<PrincipalKey>) {
        let (decision, expiry) = decision(runs[planned.call], user)
        var promoted: WritePlan.PromotedLeaf?
        if let leaf = planned.promoted {
            promoted = WritePlan.PromotedLeaf(
                json: leaf.body.json,
                acceptance: self.decision(runs[leaf.call], user).0
            )
        }
        let outcome = planned.plan.commit(
            decision,
            promotedLeaf: promoted,
            timeSaved: time.wallNanoseconds(),
            drawSequence: drawSequence
        )
        switch outcome {
        case .refused(let refusal): return (.refused(refusal), [])
        case .stored(let stored):
            let expires = seconds(of: expiry ?? write.expiry)
            let changed = replace(planned.before, by: stored, write.document, expires: expires)
            return (.stored(stored.revision), changed)
        }
    }

    /// A user with the grants that there are now; nil if it is gone.
    private func syncUser(_ key: PrincipalKey) -> SyncUser? {
        storedPrincipal(key).map { user in
            Access(of: user, documents: grants) { storedPrincipal(PrincipalKey(.role, $0)) }
                .syncUser(key)
        }
    }

    private func decision(
        _ run: SyncRun,
        _ user: SyncUser?
    ) -> (WritePlan.Acceptance, DocumentExpiry?) {
        switch SyncDecision(run, for: user, dialect: rules.dialect) {
        case .refused(let refusal): return (.refused(refusal), nil)
        case .accepted(let outcome):
            let expiry = outcome.expiry.flatMap { DocumentExpiry(number: Int($0)) }
            return (.accepted(SyncAssignment(outcome)), expiry)
        }
    }

    /// The second at which a document expires; 0 for never.
    private func seconds(of expiry: DocumentExpiry?) -> UInt64 {
        switch expiry {
        case nil: 0
        case .seconds(let seconds): nowSeconds + UInt64(seconds)
        case .unixSeconds(let seconds): UInt64(seconds)
        }
    }

    // MARK: Calls of the sync function

    private func call(
        of plan: WritePlan,
        _ write: RevisionWrite,
        _ before: StoredDocument?
    ) -> SyncCall {
        SyncCall(
            RevisionName(plan.revision, of: write.document),
            isDeleted: write.request.isDeleted,
            body: RevisionBody(json: write.request.content.bytes, attachments: plan.attachments),
            old: oldBody(plan.ancestors, write.document, before: before),
            context: write.author?.context
        )
    }

    /// The call for a leaf that is stored already.
    func call(
        of leaf: RevisionID,
        _ body: RevisionBody,
        id: [UInt8],
        document: StoredDocument?,
        context: [UInt8]?
    ) -> SyncCall {
        let tree = document?.metadata.tree ?? RevisionTree()
        return SyncCall(
            RevisionName(leaf, of: id),
            isDeleted: tree[leaf]?.isDeleted ?? false,
            body: body,
            old: oldBody(Array(tree.ancestry(of: leaf).dropFirst()), id, before: document),
            context: context
        )
    }

    /// The nearest ancestor whose body is still stored, or that is a tombstone: most have no content, which
    /// is not stored.
    private func oldBody(
        _ ancestors: [RevisionID],
        _ id: [UInt8],
        before: StoredDocument?
    ) -> SyncCall.Old? {
        for ancestor in ancestors {
            let isDeleted = before?.metadata.tree[ancestor]?.isDeleted ?? false
            let blank = isDeleted ? RevisionBody() : nil
            if let body = body(of: ancestor, id, before) ?? blank {
                return SyncCall.Old(body: body, isDeleted: isDeleted)
            }
        }
        return nil
    }

    func body(
        of revision: RevisionID,
        _ id: [UInt8],
        _ document: StoredDocument?
    ) -> RevisionBody? {
        document?.body(of: revision) ?? keptBody(RevisionName(revision, of: id))
    }
}

extension SyncAssignment {
    /// The results of an accepted run, with names as documents store them.
    init(_ outcome: SyncOutcome) {
        self.init(channels: outcome.channels.map(\.description))
        for (key, names) in outcome.access {
            access[key.accessName] = names.map(\.description)
        }
        for (key, names) in outcome.roles { roles[key.accessName] = Array(names) }
    }
}

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
