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

/// A revision of a design document, whose numbers begin at 1 again if it is deleted and made again.
package struct DocumentRevision: Hashable, Sendable {
    package let number: UInt32
    /// A checksum of the text.
    package let digest: UInt32

    package init(number: UInt32, digest: UInt32) {
        self.number = number
        self.digest = digest
    }

    /// Whether this is the other revision or may be a change of it, so that the document need not have been
    /// deleted between.
    func mayFollow(_ other: DocumentRevision) -> Bool { self == other || number > other.number }
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
    /// The revisions of the design documents, by name.
    package var revisions: [String: DocumentRevision] = [:]

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
        /// Whether tombstones with extended attributes are mapped.
        let mapsTombstones: Bool
        /// The option of each view's design document; nil: that of the cluster.
        var changesMin: [Int?] = []
        /// The views whose current definitions have this index.
        var views: [IndexReport.View] = []
        /// The views that it answers only until their changed definitions are built.
        var changedViews: [IndexReport.View] = []
        /// The reductions whose results the index stores.
        var slots: Set<SlotDefinition> = []
    }

    let bucket: ViewBucket
    /// For queries, each of which compares its vBuckets with these.
    let served: ServedVBuckets
    let succession: ViewSuccession
    /// Previous definitions that no new query uses; those that have begun still read their indexes.
    let retired: [ViewDefinition]
    /// By design document and view.
    private(set) var definitions: [String: [String: ViewDefinition]] = [:]
    private(set) var indexes: [IndexSignature: Plan] = [:]
    /// The JavaScript sources of reduce functions.
    private(set) var reductions: [IndexSignature: String] = [:]
    /// One definition for each index that was never complete on all nodes.
    private(set) var unsettled: [ViewDefinition] = []

    /// Signs the views, unless `earlier` has the same.
    ///
    /// - Parameters:
    ///   - bucket: The bucket.
    ///   - earlier: What the service followed before.
    ///   - succession: That of the same views.
    ///   - retired: Definitions whose indexes stay open, unless their views are deleted.
    init(
        _ bucket: ViewBucket,
        earlier: FollowedBucket?,
        _ succession: ViewSuccession,
        retired: [ViewDefinition] = []
    ) {
        self.bucket = bucket
        served = ServedVBuckets(revision: bucket.mapRevision, vBuckets: bucket.served)
        self.succession = succession
        self.retired = retired
        if let earlier, earlier.bucket.views == bucket.views, earlier.succession == succession,
            earlier.retired == retired
        {
            definitions = earlier.definitions
            indexes = earlier.indexes
            reductions = earlier.reductions
            unsettled = earlier.unsettled
            return
        }
        var signatures: Set<IndexSignature> = []
        for definition in bucket.views {
            definitions[definition.designDocument, default: [:]][definition.view] = definition
            let signature = add(definition, to: \.views)
            indexes[signature]?.changesMin.append(definition.changesMin)
            if !succession.isSettled(definition), signatures.insert(signature).inserted {
                unsettled.append(definition)
            }
            if let previous = succession.previous(of: definition) {
                add(previous, to: \.changedViews)
            }
        }
        for definition in retired
        where definitions[definition.designDocument]?[definition.view] != nil {
            add(definition, to: \.changedViews)
        }
    }

    /// Adds the index and the reduction of a definition.
    ///
    /// - Returns: The index.
    @discardableResult
    private mutating func add(
        _ definition: ViewDefinition,
        to views: WritableKeyPath<Plan, [IndexReport.View]>
    ) -> IndexSignature {
        let signature = IndexSigning.signature(of: definition)
        // The signature depends on both.
        let plan = Plan(map: definition.map, mapsTombstones: definition.indexesTombstones)
        indexes[signature, default: plan][keyPath: views].append(definition.name)
        guard let slot = IndexSigning.slotSignature(of: definition) else { return signature }
        switch definition.reduce {
        // Inner nodes have row counts.
        case nil, .count: break
        case .sum, .stats: indexes[signature]?.slots.insert(.numeric(slot))
        case .custom(let source):
            reductions[slot] = source
            let stored = SlotDefinition(signature: slot, kind: .custom, source: source)
            indexes[signature]?.slots.insert(stored)
        }
        return signature
    }
}
