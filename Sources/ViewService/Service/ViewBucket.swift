package import Indexing
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
    package var designDocument: String
    package var view: String
    /// The JavaScript source.
    package var map: String
    /// Nil: the view has none.
    package var reduce: Reduce?
    /// Whether tombstones are mapped.
    package var indexesTombstones: Bool
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
    package var number: UInt32
    /// A checksum of the text.
    package var digest: UInt32

    package init(number: UInt32, digest: UInt32) {
        self.number = number
        self.digest = digest
    }

    /// Whether this is the other revision or may be a change of it, so that the document need not have been
    /// deleted between.
    func mayFollow(_ other: DocumentRevision) -> Bool { self == other || number > other.number }
}

/// A bucket's views and active vBuckets on this node, from the agreed state; replaces the value before.
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

/// A view with the names of what it reads, by content.
///
/// They are made once for a definition, so that queries do not hash its sources, which may be long.
package struct SignedView: Equatable, Sendable {
    package let definition: ViewDefinition
    /// The index that has the view's rows.
    package let index: IndexSignature
    /// The stored reductions; nil if the view has no reduce function.
    package let slot: IndexSignature?

    package init(_ definition: ViewDefinition) {
        self.definition = definition
        index = IndexSigning.signature(of: definition)
        slot = IndexSigning.slotSignature(of: definition)
    }
}

/// A bucket with what follows from its views: the indexes and the reduce functions.
///
/// An object, because each query reads it several times: a copy would count the references to all its parts.
final class ViewedBucket: Sendable {
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
    private let signed: Signed

    /// The signed views, and the indexes and reductions that follow from the views alone.
    fileprivate struct Signed: Sendable {
        var views: [String: [String: SignedView]] = [:]
        var indexes: [IndexSignature: Plan] = [:]
        var reductions: [IndexSignature: String] = [:]
        var unsettled: [ViewDefinition] = []
    }

    /// By design document and view.
    var views: [String: [String: SignedView]] { signed.views }
    var indexes: [IndexSignature: Plan] { signed.indexes }
    /// The JavaScript sources of reduce functions.
    var reductions: [IndexSignature: String] { signed.reductions }
    /// One definition for each index that was never complete on all nodes.
    var unsettled: [ViewDefinition] { signed.unsettled }

    /// Signs the views, unless `earlier` has the same.
    ///
    /// - Parameters:
    ///   - bucket: The bucket.
    ///   - earlier: What the service followed before.
    ///   - succession: That of the same views.
    ///   - retired: Definitions whose indexes stay open, unless their views are deleted.
    init(
        _ bucket: ViewBucket,
        earlier: ViewedBucket?,
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
            signed = earlier.signed
        } else {
            signed = Signed(bucket.views, succession, retired: retired)
        }
    }
}

extension ViewedBucket.Signed {
    /// Signs the views.
    init(_ definitions: [ViewDefinition], _ succession: ViewSuccession, retired: [ViewDefinition]) {
        var signatures: Set<IndexSignature> = []
        for definition in definitions {
            let view = SignedView(definition)
            views[definition.designDocument, default: [:]][definition.view] = view
            add(view, to: \.views)
            indexes[view.index]?.changesMin.append(definition.changesMin)
            if !succession.isSettled(definition), signatures.insert(view.index).inserted {
                unsettled.append(definition)
            }
            if let previous = succession.previous(of: definition) {
                add(SignedView(previous), to: \.changedViews)
            }
        }
        for definition in retired
        where views[definition.designDocument]?[definition.view] != nil {
            add(SignedView(definition), to: \.changedViews)
        }
    }

    /// Adds the index and the reduction of a view.
    private mutating func add(
        _ view: SignedView,
        to list: WritableKeyPath<ViewedBucket.Plan, [IndexReport.View]>
    ) {
        let (definition, signature) = (view.definition, view.index)
        // The signature depends on both.
        let plan = ViewedBucket.Plan(
            map: definition.map,
            mapsTombstones: definition.indexesTombstones
        )
        indexes[signature, default: plan][keyPath: list].append(definition.name)
        guard let slot = view.slot else { return }
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
