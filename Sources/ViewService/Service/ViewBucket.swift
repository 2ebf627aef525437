internal import Indexing
package import Vocabulary

/// A view of a design document, as the service keeps it.
package struct ViewDefinition: Hashable, Sendable {
    /// How a view reduces its rows.
    package enum Reduce: Hashable, Sendable {
        case count
        case sum
        case stats
        /// A JavaScript function.
        case custom(String)
    }

    /// Without `_design/`.
    package let designDocument: String
    package let view: String
    /// The JavaScript source.
    package let map: String
    /// Nil: the view has none.
    package let reduce: Reduce?
    /// Whether tombstones are mapped.
    package let indexesTombstones: Bool
    /// The design document's option `updateMinChanges`; nil: that of the cluster.
    package var changesMin: Int?

    package init(
        designDocument: String,
        view: String,
        map: String,
        reduce: Reduce? = nil,
        indexesTombstones: Bool = false
    ) {
        self.designDocument = designDocument
        self.view = view
        self.map = map
        self.reduce = reduce
        self.indexesTombstones = indexesTombstones
    }
}

/// What the agreed state wants of one bucket on this node; a value that replaces the one before.
package struct ViewBucket: Hashable, Sendable {
    package let uuid: String
    package let name: String
    package let views: [ViewDefinition]
    /// The vBuckets that are active here.
    package let served: Set<VBucketID>
    /// The revision of the cluster map that `served` is from.
    package let mapRevision: UInt64

    package init(
        uuid: String,
        name: String,
        views: [ViewDefinition],
        served: Set<VBucketID>,
        mapRevision: UInt64
    ) {
        self.uuid = uuid
        self.name = name
        self.views = views
        self.served = served
        self.mapRevision = mapRevision
    }
}

/// A bucket with what follows from its views: the indexes and the reduce functions.
struct FollowedBucket: Sendable {
    /// An index and the views that it serves.
    struct Plan: Sendable {
        let map: String
        /// The option of each view's design document; nil: that of the cluster.
        var changesMin: [Int?] = []
        var views: [IndexReport.View] = []
        /// The reductions whose results the index stores.
        var slots: Set<SlotDefinition> = []
    }

    let bucket: ViewBucket
    /// By design document and view.
    private(set) var definitions: [String: [String: ViewDefinition]] = [:]
    private(set) var indexes: [IndexSignature: Plan] = [:]
    /// The JavaScript sources of reduce functions.
    private(set) var reductions: [IndexSignature: String] = [:]

    /// Signs the views, unless `earlier` has the same.
    init(_ bucket: ViewBucket, earlier: FollowedBucket?) {
        self.bucket = bucket
        if let earlier, earlier.bucket.views == bucket.views {
            definitions = earlier.definitions
            indexes = earlier.indexes
            reductions = earlier.reductions
            return
        }
        for definition in bucket.views {
            definitions[definition.designDocument, default: [:]][definition.view] = definition
            let signature = IndexSigning.signature(of: definition)
            let view = IndexReport.View(
                designDocument: definition.designDocument,
                view: definition.view
            )
            indexes[signature, default: Plan(map: definition.map)].views.append(view)
            indexes[signature]?.changesMin.append(definition.changesMin)
            guard let slot = IndexSigning.slotSignature(of: definition) else { continue }
            switch definition.reduce {
            // Inner nodes have row counts.
            case nil, .count: break
            case .sum, .stats: indexes[signature]?.slots.insert(.numeric(slot))
            case .custom(let source):
                reductions[slot] = source
                let stored = SlotDefinition(signature: slot, kind: .custom, source: source)
                indexes[signature]?.slots.insert(stored)
            }
        }
    }
}
