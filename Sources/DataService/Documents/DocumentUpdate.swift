package import Bytes
internal import Engine
package import Vocabulary

/// A document for the transform of an update; valid only during the call.
package struct DocumentView {
    package let meta: DocumentMeta
    /// The whole stored form.
    package let value: ByteView

    /// The value without extended attributes.
    package var body: ByteView { XattrBlob.body(of: value, meta.datatype) }

    /// The extended attributes; nil if there are none.
    package var attributes: XattrBlob? {
        meta.datatype.contains(.xattr) ? XattrBlob(stored: value) : nil
    }
}

/// The change that the transform of an update makes.
package enum DocumentChange: Sendable {
    /// Store nothing.
    case keep
    /// Store the bytes that the transform wrote.
    case store(Fields)
    /// Delete the document, except its system attributes; refused with `notFound` if there is none.
    case delete

    /// The fields that are stored with the bytes.
    package struct Fields: Sendable {
        /// Nil keeps the current ones, also those of a tombstone.
        package var flags: UInt32?
        /// In the protocol's format; 0 removes the current expiry.
        package var expiry: UInt32
        /// Whether a document keeps its current expiry, and `expiry` is for a new one.
        package var preservesExpiry = false
        /// Nil derives it from the value, which then has no attributes.
        package var datatype: Datatype?
        /// Whether the version is a tombstone with the value.
        package var isDeleted: Bool
        package var attributes: AttributePolicy
        /// Places of the written bytes that get the version's CAS or seqno.
        package var macros: [MacroPatch] = []

        package init(
            flags: UInt32? = nil,
            expiry: UInt32 = 0,
            datatype: Datatype? = nil,
            isDeleted: Bool = false,
            attributes: AttributePolicy = .keep
        ) {
            self.flags = flags
            self.expiry = expiry
            self.datatype = datatype
            self.isDeleted = isDeleted
            self.attributes = attributes
        }
    }
}

/// Changes a document: gets the current version, or nil, and writes the new value.
///
/// May be called several times for one update, each time with the version that is then current, and
/// from different lanes. It does not block, and does not use the vBucket.
package typealias DocumentTransform = @Sendable (DocumentView?, ByteWriter) -> DocumentChange

/// How one attempt at an update ended.
enum UpdateOutcome {
    case ended(AttemptOutcome)
    case unchanged
    /// Not to be transformed under the lock: a copy, if the bounds ask for one; nil also if the
    /// document is missing.
    case deferred(DocumentCopy?)
}

/// Which documents an update transforms under the vBucket's lock.
struct TransformBounds {
    /// The largest value; a larger one is deferred.
    var bytesMax = Limits.lockedTransformBytesMax
    /// Whether a missing document is made under the lock, and not deferred.
    var includesMissing = true
    /// Whether a deferred document is copied out.
    var copiesDeferred = true
    /// Whether a missing document is made even if the request names a version.
    var makesDespiteCAS = false

    /// For a transform that takes long with any document: all are deferred.
    static let none = TransformBounds(bytesMax: -1, includesMissing: false)
}

extension DocumentOperations {
    /// Reads a document, transforms it and stores the result in one hold of the vBucket's lock.
    ///
    /// - Parameters:
    ///   - document: The document, which need not exist.
    ///   - cas: The version to change, or none for the current one.
    ///   - bounds: Which documents are transformed under the lock.
    ///   - includesDeleted: Whether the transform gets a tombstone (`meta.isDeleted`), and `cas` may
    ///     name it. Otherwise a tombstone is a missing document.
    ///   - transform: The change.
    /// - Returns: The outcome; with `deferred` nothing was stored.
    func update(
        _ document: DocumentAddress,
        cas: CAS,
        _ bounds: TransformBounds,
        includesDeleted: Bool = false,
        _ transform: (DocumentView?, ByteWriter) -> DocumentChange
    ) -> UpdateOutcome {
        func body(_ core: inout VBucketCore, _ turn: borrowing ExecutionContext) -> Change {
            let found =
                includesDeleted
                ? core.getAny(document.key, hash: document.hash, turn)
                : core.get(document.key, hash: document.hash, turn)
            return change(document, found, cas: cas, bounds, transform, &core, turn)
        }
        let result: Change
        if isDurable {
            switch applyDurably(document, body) {
            case .refused(let refusal): return .ended(.refused(refusal))
            case .applied(let change): result = change
            }
        } else {
            result = document.vBucket.withCore { body(&$0, turn) }
        }
        switch result {
        case .mutation(let outcome):
            let ended = finish(outcome, document.id, .sets, cas: cas)
            switch ended {
            case .stored, .prepared: break
            default: noteExpiry(document)
            }
            return .ended(ended)
        case .unchanged:
            noteExpiry(document)
            return .unchanged
        case .deferred(let copy): return .deferred(copy)
        }
    }

    /// The result of the transform under the lock.
    private enum Change: MutationCarrier {
        case mutation(MutationOutcome)
        case unchanged
        case deferred(DocumentCopy?)

        var mutation: MutationOutcome? {
            if case .mutation(let outcome) = self { outcome } else { nil }
        }
    }

    /// Stores a change of a version that was copied out before.
    ///
    /// - Parameters:
    ///   - change: What the transform returned.
    ///   - writer: What it wrote.
    ///   - document: The document.
    ///   - old: The version that the transform got; nil if there was none.
    ///   - options: Whether the transform would have got a tombstone, and whether the request names
    ///     a version. Otherwise a lost race is no CAS mismatch.
    /// - Returns: `refused(.exists)` if another version is current.
    func store(
        _ change: DocumentChange,
        _ writer: ByteWriter,
        of document: DocumentAddress,
        replacing old: DocumentMeta?,
        _ options: DocumentService.AttemptOptions
    ) -> UpdateOutcome {
        let cas = old?.cas ?? .none
        switch change {
        case .keep: return .unchanged
        case .delete:
            guard old != nil else { return .ended(.refused(.notFound)) }
            return .ended(
                write(document, .deletes, cas: options.cas) { core, turn in
                    core.delete(document.key, hash: document.hash, cas: cas, turn)
                }
            )
        case .store(let fields):
            return .ended(
                write(document, .sets, cas: options.cas) { core, turn in
                    // A request for documents does not name tombstones, so they are compared here.
                    if old?.isDeleted ?? options.includesDeleted,
                        let refusal = refusal(ofTombstone: old, document, &core, turn)
                    {
                        return refusal
                    }
                    return store(fields, writer, document, old, cas: cas, &core, turn)
                }
            )
        }
    }

    /// Why a tombstone, or nothing, cannot be replaced; nil if it is the current version.
    private func refusal(
        ofTombstone old: DocumentMeta?,
        _ document: DocumentAddress,
        _ core: inout VBucketCore,
        _ turn: borrowing ExecutionContext
    ) -> MutationOutcome? {
        switch core.getMeta(document.key, hash: document.hash, turn) {
        case .found(let item, _): item.isDeleted && item.cas == old?.cas ? nil : .exists
        case .notFound where old == nil: nil
        case .notMyVBucket: .notMyVBucket
        case .recommitting: .recommitting
        case .wouldBlock(let wait): .wouldBlock(wait)
        // It was purged.
        default: .exists
        }
    }

    private func change(
        _ document: DocumentAddress,
        _ found: ReadOutcome,
        cas: CAS,
        _ bounds: TransformBounds,
        _ transform: (DocumentView?, ByteWriter) -> DocumentChange,
        _ core: inout VBucketCore,
        _ turn: borrowing ExecutionContext
    ) -> Change {
        var old: DocumentMeta?
        let change: DocumentChange
        let writer = context.scratch
        writer.removeAll(keepingAtMost: 1 << 20)
        switch found {
        case .found(let item, _):
            if let refusal = core.refusal(item, cas, turn) { return .mutation(refusal) }
            if item.valueCount > bounds.bytesMax {
                guard bounds.copiesDeferred else { return .deferred(nil) }
                return .deferred(DocumentCopy(meta: item.meta, value: item.value.bytes))
            }
            old = item.meta
            change = transform(DocumentView(meta: item.meta, value: item.value), writer)
        case .notFound:
            guard cas == .none || bounds.makesDespiteCAS else { return .mutation(.notFound) }
            guard bounds.includesMissing else { return .deferred(nil) }
            change = transform(nil, writer)
        case .locked: return .mutation(.locked)
        case .temporaryFailure:
            preconditionFailure("an active copy that is read is neither built nor short of memory")
        case .notMyVBucket: return .mutation(.notMyVBucket)
        case .inProgress: return .mutation(.inProgress)
        case .recommitting: return .mutation(.recommitting)
        case .wouldBlock(let wait): return .mutation(.wouldBlock(wait))
        }
        switch change {
        case .keep: return .unchanged
        case .delete:
            return .mutation(core.delete(document.key, hash: document.hash, cas: cas, turn))
        case .store(let fields):
            return .mutation(store(fields, writer, document, old, cas: cas, &core, turn))
        }
    }

    /// Stores what a transform wrote; `old` is the current version, or the caller has compared it.
    private func store(
        _ fields: DocumentChange.Fields,
        _ writer: ByteWriter,
        _ document: DocumentAddress,
        _ old: DocumentMeta?,
        cas: CAS,
        _ core: inout VBucketCore,
        _ turn: borrowing ExecutionContext
    ) -> MutationOutcome {
        let isReplacing = old?.isDeleted == false
        var request = StoreRequest(
            key: document.key,
            hash: document.hash,
            value: writer.view,
            flags: fields.flags ?? old?.flags ?? 0,
            expiry: expiry(ofField: fields.expiry),
            datatype: fields.datatype ?? datatype(of: writer.view),
            // A tombstone is no document that a request for documents could name.
            cas: isReplacing ? cas : .none,
            mode: isReplacing ? .set : .add,
            preservesExpiry: fields.preservesExpiry
        )
        request.attributes = fields.attributes
        request.isDeleted = fields.isDeleted
        guard request.isWithinLimits else { return .tooLarge }
        if !fields.macros.isEmpty {
            MacroPatch.expand(fields.macros, core.upcoming(turn), in: writer)
        }
        return core.store(request, turn)
    }
}
