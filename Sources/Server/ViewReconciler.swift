internal import Bytes
internal import ClusterService
internal import Indexing
internal import Orchestration
internal import ViewService
internal import Vocabulary

/// Has the index service follow the agreed state: which views there are, and which vBuckets are
/// active here.
///
/// The state decides alone, not the copies: an index removes the rows of a vBucket that it does not
/// serve, and a copy that serves by the map may be pending for a while, above all after a restart.
/// Until it is active, its feed is not available.
///
/// - A change of the state that changes no view and no active copy costs one comparison for each
///   bucket.
/// - A bucket without views is not passed to the index service.
/// - Nothing is followed before the node carries out the current state: the index service removes
///   the indexes that a state does not need.
final class ViewReconciler: ServingMapSource {
    private let administration: AdministrationService
    private let opening: IndexOpening
    private let core = Guarded(Core())

    private struct Core {
        /// The buckets and the node that the index service follows; nil before the first update.
        var followed: PlacementInputs?
        /// Whether the index service may have indexes.
        var hasIndexes = false
        var observers: [UInt64: Observer] = [:]
        var lastObserver: UInt64 = 0
        /// The newest maps that were asked for, by the bucket's UUID.
        var maps: [String: KnownMap] = [:]
        /// Whether the state may have changed since the last update began.
        var isDue = false
        /// Whether a thread is updating.
        var isUpdating = false
        var isStopped = false
        /// Called after the index service got other buckets.
        var reconciledHook: (@Sendable () -> Void)?
    }

    /// The inputs of a node's index placement, for change detection.
    private struct PlacementInputs: Equatable {
        let marks: [Mark]
        let node: NodeNumber
        let settings: IndexingSettings

        init(_ state: ClusterState, on node: NodeNumber) {
            marks = state.buckets.map(Mark.init)
            self.node = node
            settings = state.indexing
        }
    }

    /// The inputs of a bucket's index placement, for change detection.
    private struct Mark: Equatable {
        let bucket: String
        let mapRevision: UInt64
        let designRevision: UInt64

        init(_ bucket: BucketRecord) {
            self.bucket = bucket.settings.uuid
            mapRevision = bucket.rev
            designRevision = bucket.designRevision
        }
    }

    private typealias MapRevision = Cluster.MapRevision

    private struct KnownMap {
        let revision: MapRevision
        let map: QueryCoordination.ServingMap
    }

    private struct Observer {
        let bucket: String
        let changed: @Sendable (QueryCoordination.ServingMap) -> Void
    }

    init(_ administration: AdministrationService, _ opening: IndexOpening) {
        self.administration = administration
        self.opening = opening
    }

    // MARK: Life

    /// Follows the state from now on.
    ///
    /// - Parameter hasFiles: Whether an earlier run may have left indexes. If so, the index service
    ///   is called even if there are no views, so that it removes their files.
    func start(hasFiles: Bool) {
        core.withLock { $0.hasIndexes = hasFiles }
        administration.cluster.observeState { [weak self] in self?.stateChanged() }
        opening.whenOpened { [weak self] in self?.stateChanged() }
        stateChanged()
    }

    /// Calls `reconciled` each time after the index service got other buckets.
    func whenReconciled(_ reconciled: @escaping @Sendable () -> Void) {
        core.withLock { $0.reconciledHook = reconciled }
    }

    /// Changes nothing any more.
    func stop() { core.withLock { $0.isStopped = true } }

    // MARK: Following

    /// Updates the index service, unless another thread does; that one then updates it again.
    ///
    /// So the newest state is the last one that the index service gets.
    private func stateChanged() {
        var isMine = core.withLock { core in
            core.isDue = true
            defer { core.isUpdating = true }
            return !core.isUpdating && !core.isStopped
        }
        while isMine {
            core.withLock { $0.isDue = false }
            update()
            isMine = core.withLock { core in
                core.isUpdating = core.isDue && !core.isStopped
                return core.isUpdating
            }
        }
    }

    private func update() {
        // The state of a restarted node may lack buckets and views whose indexes it has.
        guard administration.applier.isFollowingState else { return }
        let (state, node) = (administration.state, administration.thisNode)
        let isNews = core.withLock { core in
            let followed = PlacementInputs(state, on: node)
            guard core.followed != followed else { return false }
            core.followed = followed
            // Made again when they are asked for; so none of a deleted bucket stays.
            core.maps = [:]
            return true
        }
        guard isNews else { return }
        let followed = state.buckets.compactMap { ViewBucket($0, on: node) }
        let isNeeded = core.withLock { core in
            defer { core.hasIndexes = !followed.isEmpty }
            return core.hasIndexes || !followed.isEmpty
        }
        if isNeeded {
            if let indexes = opening.open() {
                indexes.set(IndexTerms(state.indexing))
                indexes.reconcile(followed)
                core.withLock { $0.reconciledHook }?()
            } else {
                // Due again with the next change, or when another caller has opened the service.
                core.withLock { $0.followed = nil }
            }
        }
        for observer in core.withLock({ Array($0.observers.values) }) {
            guard let map = servingMap(ofBucket: observer.bucket, in: state) else {
                continue
            }
            observer.changed(map)
        }
    }

    // MARK: Maps for queries

    /// Each query asks several times, so a map is kept while the bucket has its revision, and the state is
    /// not copied to find that out.
    func servingMap(ofBucket uuid: String) -> QueryCoordination.ServingMap? {
        guard let revision = administration.cluster.mapRevision(ofBucket: uuid) else { return nil }
        return knownMap(ofBucket: uuid, revision)
            ?? servingMap(ofBucket: uuid, in: administration.state)
    }

    private func knownMap(
        ofBucket uuid: String,
        _ revision: MapRevision
    ) -> QueryCoordination.ServingMap? {
        guard let known = core.withLock({ $0.maps[uuid] }), known.revision == revision else {
            return nil
        }
        return known.map
    }

    /// The first node of a chain is asked even if its promotion is not confirmed: it answers that it
    /// does not serve yet, and the query starts again until it does.
    private func servingMap(
        ofBucket uuid: String,
        in state: ClusterState
    ) -> QueryCoordination.ServingMap? {
        guard let bucket = state.buckets.first(where: { $0.settings.uuid == uuid }) else {
            return nil
        }
        let revision = MapRevision(epoch: state.revEpoch, revision: bucket.rev)
        if let known = knownMap(ofBucket: uuid, revision) { return known }
        // A closure: a key path is evaluated by reflection, for each vBucket.
        let map = QueryCoordination.ServingMap(
            revision: bucket.rev,
            actives: bucket.placements.map { $0.chain.first }
        )
        core.withLock { $0.maps[uuid] = KnownMap(revision: revision, map: map) }
        return map
    }

    /// Calls `changed` with each map from now on; a map may be passed again.
    func observe(
        bucket uuid: String,
        _ changed: @escaping @Sendable (QueryCoordination.ServingMap) -> Void
    ) -> any Observation {
        let number = core.withLock { core in
            core.lastObserver += 1
            core.observers[core.lastObserver] = Observer(bucket: uuid, changed: changed)
            return core.lastObserver
        }
        return MapObservation(follower: self, number: number)
    }

    private struct MapObservation: Observation {
        let follower: ViewReconciler
        let number: UInt64

        func cancel() { follower.core.withLock { _ = $0.observers.removeValue(forKey: number) } }
    }

    func name(of node: NodeNumber) -> String {
        guard let record = administration.state.node(number: node) else { return "node \(node)" }
        let host = record.host.contains(":") ? "[\(record.host)]" : record.host
        return "\(host):\(record.ports.views)"
    }
}

extension ViewBucket {
    /// The views and active vBuckets of a bucket on a node; nil if the bucket has no views.
    fileprivate init?(_ bucket: BucketRecord, on node: NodeNumber) {
        let views = bucket.designDocuments.flatMap { document in
            document.definition.views.map { ViewDefinition($0, of: document) }
        }
        guard !views.isEmpty else { return nil }
        let served = bucket.numberedPlacements.filter { $1.chain.first == node }.map { $0.0 }
        self.init(
            uuid: bucket.settings.uuid,
            name: bucket.settings.name,
            views: views,
            served: Set(served),
            mapRevision: bucket.rev
        )
        for document in bucket.designDocuments {
            revisions[document.name] = DocumentRevision(
                number: document.revision.number,
                digest: document.revision.digest
            )
        }
    }
}

extension IndexTerms {
    fileprivate init(_ settings: IndexingSettings) {
        self.init()
        updates.changesMin = settings.updateMinChanges
        updates.intervalNanoseconds = UInt64(settings.updateIntervalMilliseconds) * 1_000_000
        buildsMax = Int(settings.parallelIndexersMax)
        compaction.percent = settings.fragmentationPercent.map(Int.init)
        compaction.bytes = settings.fragmentationBytes
    }
}

extension ViewDefinition {
    fileprivate init(_ view: DesignDefinition.View, of document: DesignDocument) {
        let options = document.definition.options
        let reduce: Reduce? =
            switch view.reduce {
            case nil: nil
            case "_count": .count
            case "_sum": .sum
            case "_stats": .stats
            case .some(let source): .custom(source)
            }
        self.init(
            designDocument: document.name,
            view: view.name,
            map: view.map,
            reduce: reduce,
            indexesTombstones: options.indexesTombstones
        )
        changesMin = options.updateMinChanges
    }
}
