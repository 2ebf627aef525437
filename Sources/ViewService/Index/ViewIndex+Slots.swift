internal import Bytes
package import Indexing
package import Persistence
internal import Seams
internal import Vocabulary

/// Stored results of reductions: which there are, and adding those that are missing.
///
/// Each step is a commit of its own with bounded work, so that rows are never delayed by more.
extension ViewIndex {
    /// Nodes that a step of a fill reads: about 10 ms.
    private static let fillReadsMax = 512
    /// Tables that a step removes.
    private static let removedTablesMax = 1_000
    /// The pause before results of queries are stored, so that those of many are one commit.
    private static let storePauseNanoseconds: UInt64 = 20_000_000
    /// The pause between two steps: other work of the lane comes in between.
    private static let stepPauseNanoseconds: UInt64 = 2_000_000

    /// Sets the reductions that the index's views need.
    ///
    /// Any thread; the newest call replaces those before.
    ///
    /// Rows are not touched. A numeric slot that is added is filled in the background; until then,
    /// reductions are computed from rows.
    package func setSlots(_ wanted: [SlotDefinition]) {
        dependencies.lane.post { [self] in
            guard !health.isStopped, health.failure == nil else { return }
            progress.slots.want(wanted)
            publishCompleteSlots()
            post(.slots)
        }
    }

    /// Stores results that a query computed (`CustomReduce.computed`).
    ///
    /// Any thread; returns at once.
    ///
    /// Results of nodes that have changed since are dropped, and so are those of a slot that the
    /// index does not have.
    package func store(_ computed: [ComputedPartial], slot: IndexSignature) {
        guard !computed.isEmpty else { return }
        dependencies.lane.post { [self] in
            guard !health.isStopped, health.failure == nil else { return }
            progress.slots.add(computed, slot)
            post(.slots, after: Self.storePauseNanoseconds)
        }
    }

    /// The slot of a reduction in a reader's snapshot, for `StoredPartials`.
    ///
    /// Any thread.
    ///
    /// Nil if the snapshot does not have the slot, or if results of a numeric slot may be missing: a
    /// query would have to read many rows in one step.
    ///
    /// - Throws: `StorageError`: `.damaged` if a row is damaged, or a disk error.
    package func slot(
        _ signature: IndexSignature,
        in reads: IndexReads
    ) throws(StorageError) -> IndexSlotID? {
        let name = signature.description
        guard let slot = try reads.slots().first(where: { $0.signature == name }) else {
            return nil
        }
        let isNumeric = slot.kind == SlotDefinition.Kind.numeric.rawValue
        return isNumeric && !shared.withLock({ $0.completeSlots.contains(slot.id) }) ? nil : slot.id
    }

    /// A commit of rows left out results of a numeric slot: they are filled in afterwards.
    func missed(_ slot: IndexSlotID) {
        progress.slots.missed(slot)
        publishCompleteSlots()
        post(.slots, after: Self.stepPauseNanoseconds)
    }

    /// Which slots are complete, for the threads of queries.
    private func publishCompleteSlots() {
        let complete = progress.slots.complete
        shared.withLock { $0.completeSlots = complete }
    }

    func stepSlots() {
        guard let step = progress.slots.next() else { return }
        do throws(StorageError) {
            try perform(step)
        } catch {
            progress.slots.stepFailed()
            handle(error)
        }
        publishCompleteSlots()
        checkpointIfLarge()
        post(.slots, after: Self.stepPauseNanoseconds)
    }

    private func perform(_ step: SlotAssignment.Step) throws(StorageError) {
        switch step {
        case .add(let definition):
            let slot = try file.commit { (transaction) throws(StorageError) in
                try transaction.addSlot(
                    signature: definition.signature.description,
                    kind: definition.kind.rawValue,
                    source: definition.source
                )
            }
            progress.slots.added(slot)
        case .remove(let id):
            let isRemoved = try file.commit { (transaction) throws(StorageError) in
                try transaction.removeSlot(id, countMax: Self.removedTablesMax)
            }
            if isRemoved { progress.slots.removed(id) }
        case .store(let computed, let id):
            _ = try change(id) { (nodes, _, partials, store) throws(IndexError) in
                try CustomSlotUpdate.process(
                    computed,
                    partials,
                    node: { (id) throws(IndexError) in try nodes.nodeIfPresent(id) },
                    store: store
                )
                return true
            }
        case .fill(let id, let fill):
            let isFilled = try change(id) { (_, tree, partials, store) throws(IndexError) in
                try fill.step(tree, partials, readsMax: Self.fillReadsMax, store: store)
            }
            if isFilled { progress.slots.filled(id) }
        }
    }

    /// Computes tables of a slot from the newest commit, and stores them in the next one.
    ///
    /// Without new tables there is no commit.
    private func change(
        _ slot: IndexSlotID,
        _ compute: (
            StoredNodes, Tree, StoredPartials, (IndexNodeID, ByteView) -> Void
        ) throws(IndexError) -> Bool
    ) throws(StorageError) -> Bool {
        let tables = ByteWriter()
        var places: [(node: IndexNodeID, start: Int, count: Int)] = []
        let root = try file.head().main
        let result = try file.readNewest { (reads) throws(StorageError) in
            let nodes = StoredNodes(reads)
            let partials = StoredPartials(reads, slot)
            return try reading { () throws(IndexError) in
                try compute(nodes, nodes.tree(root, .row), partials) { node, body in
                    partials.replace(node, body)
                    places.append((node, tables.count, body.count))
                    tables.append(body)
                }
            }
        }
        if !places.isEmpty {
            try file.commit { (transaction) throws(StorageError) in
                for (node, start, count) in places {
                    try transaction.writeReduction(
                        slot,
                        node,
                        body: tables.view.slice(start, count)
                    )
                }
            }
        }
        return result
    }
}
