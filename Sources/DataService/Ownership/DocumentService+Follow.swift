internal import Bytes
internal import Engine
internal import Replication
package import Seams
package import Vocabulary

/// The data service's view of the cluster, without the maps of its buckets.
struct Membership {
    /// This node's number; nil until a map is followed.
    var own: NodeNumber?
    var links: ReplicationLinkTable?
    var mapListeners: [UInt64: @Sendable () -> Void] = [:]
    var lastListener: UInt64 = 0
}

/// Applying the cluster map to copies.
///
/// `CopyPlan` decides. This applies it: the visible part under each vBucket's lock, the slow part
/// afterwards, step by step.
extension DocumentService {
    /// Sets the streams between the nodes, on which copies are made in both directions.
    ///
    /// Called once, before the first map.
    package func use(_ streams: any NodeStreams) {
        streams.serve(.copies) { [weak self] port, _ in
            self.map { ReplicationProducer(port: port, service: $0) }
        }
        let made = ReplicationLinkTable(streams, service: self)
        membership.withLock { $0.links = made }
    }

    var links: ReplicationLinkTable? { membership.withLock { $0.links } }

    /// Applies the map of one bucket.
    ///
    /// A map older than the last one is ignored.
    ///
    /// - Parameters:
    ///   - assignment: The map.
    ///   - own: This node.
    ///   - seals: The seals from before the restart: a copy that reaches such a fence is sealed
    ///     from the first moment.
    package func applyMap(
        _ assignment: BucketAssignment,
        as own: NodeNumber,
        seals: [(vBucket: VBucketID, fence: UInt64)] = []
    ) {
        membership.withLock { $0.own = own }
        guard let bucket = bucket(named: assignment.name), bucket.uuid == assignment.uuid else {
            return
        }
        var kept: [VBucketID: UInt64] = [:]
        for (vBucket, fence) in seals { kept[vBucket] = max(fence, kept[vBucket] ?? 0) }
        applyMap(assignment, on: bucket, as: own, isNew: false, seals: kept)
        links?.applyMap(assignment, own: own)
        notifyMapListeners()
    }

    // MARK: Maps

    func listenToMaps(_ notify: @escaping @Sendable () -> Void) -> UInt64 {
        membership.withLock { membership in
            membership.lastListener += 1
            membership.mapListeners[membership.lastListener] = notify
            return membership.lastListener
        }
    }

    func stopListeningToMaps(_ number: UInt64) {
        membership.withLock { $0.mapListeners[number] = nil }
    }

    func notifyMapListeners() {
        for notify in membership.withLock({ Array($0.mapListeners.values) }) { notify() }
    }

    // MARK: Applying

    /// The change of one vBucket.
    private struct Change {
        let id: VBucketID
        var isDropped = false
        /// This node had no copy before.
        var isCreated = false
        /// Activate it under this fence once the old data is dropped; nil for no activation.
        var beginsAnew: UInt64?
    }

    func applyMap(
        _ assignment: BucketAssignment,
        on bucket: OpenBucket,
        as own: NodeNumber,
        isNew: Bool,
        seals: [VBucketID: UInt64] = [:]
    ) {
        let before = bucket.assignment
        guard bucket.storeMap(assignment) else { return }
        bucket.tapPositions.note(nodes: bucket.nodes, at: environment.time.monotonicNanoseconds())
        precondition(
            assignment.vBuckets.count == bucket.engine.count,
            "a map has a row for each vBucket"
        )
        var changes: [Change] = []
        for (number, vBucket) in bucket.engine.all.enumerated() {
            // A rebalance changes a few chains at a time, hundreds of times.
            if !isNew, let before, before.vBuckets[number] == assignment.vBuckets[number] {
                continue
            }
            let seal = seals[VBucketID(UInt16(number))]
            if let change = applyMap(assignment, vBucket, on: own, isNew: isNew, seal: seal) {
                changes.append(change)
            }
        }
        let ids = changes.map(\.id)
        // A new bucket has no changes that clients could miss.
        if !isNew { recordCreated(changes.filter(\.isCreated).map(\.id), of: bucket) }
        for id in ids {
            bucket.disk?.markDirty(id)
            bucket.handOvers.resume(id)
        }
        bucket.traffic.notify(.ownership, of: ids)
        bucket.syncWrites.ownershipChanged(ids)
        bucket.syncWrites.mapChanged()
        let anew = changes.reduce(into: [:]) { $0[$1.id] = $1.beginsAnew }
        drop(changes.filter(\.isDropped).map(\.id), of: bucket) { [self] id in
            guard let fence = anew[id] else { return }
            _ = activate(
                bucket.name,
                [CopyActivation(id, fence, reason: .promotion(expected: nil))]
            )
        }
    }

    private func applyMap(
        _ assignment: BucketAssignment,
        _ vBucket: VBucket,
        on own: NodeNumber,
        isNew: Bool,
        seal: UInt64?
    ) -> Change? {
        vBucket.withCore { core in
            let entry = assignment[core.id]
            let before = (core.state, core.ownership)
            let planned = core.planned
            let action = CopyPlan.action(for: planned, entry, own: own, isNew: isNew)
            guard action != .ignore else { return nil }
            var next = core.ownership
            let mustBeginEmpty =
                !next.isResetting && action != .drop && CopyPlan.isOutlived(planned, entry)
            if next.fence != entry.fence { next.isHandingOver = false }
            // A seal was requested for a fence and a stage; at a later stage the request is
            // obsolete.
            if (next.fence, next.stage) != (entry.fence, entry.stage) { next.isSealed = false }
            next.fence = entry.fence
            next.stage = entry.stage
            next.branch = entry.branch
            var change = Change(id: core.id)
            switch action {
            case .ignore: return nil
            case .stay: core.become(core.state, next)
            case .create:
                next.exists = true
                core.become(.active, next)
                core.beginFirstHistory()
            case .serve: core.become(.active, next)
            case .goOn:
                next.readyFence = entry.fence
                core.become(.active, next)
            case .hold:
                next.exists = true
                core.become(.pending, next)
            case .follow:
                next.exists = true
                core.become(.replica, next)
                if CopyPlan.isBornWhole(planned, entry, own: own, isNew: isNew) {
                    core.beginFirstHistory()
                    _ = core.noteIntact()
                }
            case .keep: core.become(.dead, next)
            case .drop:
                next.exists = false
                next.isResetting = true
                next.intactFence = nil
                core.become(.dead, next)
                change.isDropped = true
            }
            if mustBeginEmpty {
                core.beginReset()
                change.isDropped = true
                // No copy has served since the vBucket was emptied, so it is known to be empty.
                if action == .hold, entry.fence == entry.origin { change.beginsAnew = entry.fence }
            }
            change.isCreated = !before.1.exists && next.exists
            // In the same hold of the lock: the copy must never be seen unsealed.
            if seal == entry.fence { core.seal() }
            return before == (core.state, core.ownership) ? nil : change
        }
    }
}

extension VBucketCore {
    fileprivate var planned: CopyPlan.Copy {
        CopyPlan.Copy(
            exists: ownership.exists,
            state: state,
            fence: ownership.fence,
            stage: ownership.stage,
            isSealed: ownership.isSealed,
            readyFence: ownership.readyFence,
            servedFence: ownership.servedFence,
            wasCleanStop: ownership.wasCleanStop || ownership.servedFence != nil,
            branchFence: failoverLog.current.fence,
            isEmpty: highSeqno == .zero
        )
    }
}

extension OpenBucket {
    /// Whether other nodes have copies of the bucket, or build them.
    var isShared: Bool { nodes.count > 1 }

    /// The nodes that have copies of the bucket, or build them; empty without a map.
    var nodes: Set<NodeNumber> {
        Set(assignment?.vBuckets.flatMap { $0.chain + $0.nextChain + $0.builders } ?? [])
    }

    /// Stores the newest map.
    ///
    /// - Returns: False for an older map.
    fileprivate func storeMap(_ assignment: BucketAssignment) -> Bool {
        guard assignment.index >= self.assignment?.index ?? 0 else { return false }
        self.assignment = assignment
        return true
    }
}

/// Notes of copies that came to this node, for TAP clients without history that connect soon.
///
/// The former node closes the connection of such a client when the move begins, and the client
/// connects here later, possibly after the takeover. No node then has a position of this client.
///
/// - A note is made before the copy accepts a write, so that a client that finds later changes finds
///   the note too.
/// - A new bucket's copies and those that this node has alone at a start are active without an
///   activation, and have no notes. A resumed copy has none either.
extension DocumentService {
    /// Notes copies that a map created here: their first change is the earliest that is missing.
    ///
    /// The vBucket may be handed over before the client connects again, and then the former node does
    /// not send the changes made between the close and the hand-over. So the position at the activation
    /// is too late.
    func recordCreated(_ vBuckets: [VBucketID], of bucket: OpenBucket) {
        guard !vBuckets.isEmpty else { return }
        let positions = vBuckets.map { ($0, TapPositions.Position.beginning) }
        bucket.tapPositions.note(
            Dictionary(positions) { $1 },
            at: environment.time.monotonicNanoseconds()
        )
    }

    /// Notes a copy that is about to be activated after a takeover or a promotion, under its lock.
    ///
    /// A refused activation leaves its note: changes are then repeated. A resumed copy was active here
    /// before.
    func recordActivated(
        _ activation: CopyActivation,
        _ core: borrowing VBucketCore,
        of bucket: OpenBucket
    ) {
        if case .resumption = activation.reason { return }
        guard core.state == .pending, core.ownership.fence == activation.fence, core.isLoaded
        else { return }
        let position = TapPositions.Position(uuid: core.uuid, seqno: core.coveredSeqno)
        bucket.tapPositions.note([core.id: position], at: environment.time.monotonicNanoseconds())
    }
}
