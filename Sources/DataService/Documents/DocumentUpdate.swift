package import Bytes
internal import Engine
package import Vocabulary

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
/// The version is borrowed for the call. A transform may be called several times for one update, each
/// time with the version that is then current, and from different lanes. It does not block, and does not
/// use the vBucket.
package typealias DocumentTransform = @Sendable (DocumentView?, ByteWriter) -> DocumentChange

/// The effect of one attempt at an update.
enum Update {
    case stored(Stored)
    case unchanged
    /// Not to be transformed under the lock: a copy, if the bounds ask for one; nil also if the
    /// document is missing.
    case deferred(DocumentCopy?)

    /// The version that the update stored.
    var version: Stored {
        guard case .stored(let stored) = self else {
            preconditionFailure("an update that stores nothing has no version")
        }
        return stored
    }
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
    ) -> DocumentResult<Update> {
        func body(
            _ core: inout VBucketCore,
            _ turn: borrowing ExecutionContext
        ) -> DocumentResult<Update> {
            let found =
                includesDeleted
                ? core.getAny(document.key, hash: document.hash, turn)
                : core.get(document.key, hash: document.hash, turn)
            return change(document, found, cas: cas, bounds, transform, &core, turn)
        }
        if isDurable, let refusal = durabilityRefusal(document) { return .refused(refusal) }
        let result =
            isDurable
            ? applyDurably(document, body) : document.vBucket.withCore { body(&$0, turn) }
        var finished = result
        switch result {
        case .done(.deferred), .done(.unchanged): break
        case .done(.stored), .prepared, .wait, .refused:
            finished = finish(result.map(\.version), document.id, .sets, cas: cas)
                .map { .stored($0) }
        }
        switch finished {
        case .done(.unchanged), .wait, .refused: noteRead(document)
        case .done(.stored), .done(.deferred), .prepared: break
        }
        return finished
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
    ) -> DocumentResult<Update> {
        let cas = old?.cas ?? .none
        let result: WriteResult
        switch change {
        case .keep: return .done(.unchanged)
        case .delete:
            guard old != nil else { return .refused(.notFound) }
            result = write(document, .deletes, cas: options.cas) { core, turn in
                core.delete(document.key, hash: document.hash, cas: cas, turn)
            }
        case .store(let fields):
            result = write(document, .sets, cas: options.cas) { core, turn in
                // A request for documents does not name tombstones, so they are compared here.
                if old?.isDeleted ?? options.includesDeleted,
                    let obstacle = obstacle(toTombstone: old, document, &core, turn)
                {
                    return obstacle
                }
                return store(fields, writer, document, old, cas: cas, &core, turn)
            }
        }
        return result.map { .stored($0) }
    }

    /// Why a tombstone, or nothing, cannot be replaced; nil if it is the current version.
    private func obstacle(
        toTombstone old: DocumentMeta?,
        _ document: DocumentAddress,
        _ core: inout VBucketCore,
        _ turn: borrowing ExecutionContext
    ) -> WriteResult? {
        switch core.getMeta(document.key, hash: document.hash, turn) {
        case .done(let (item, _)) where item.isDeleted && item.cas == old?.cas: nil
        case .refused(.notFound) where old == nil: nil
        case .refused(.notMyVBucket): .refused(.notMyVBucket)
        case .refused(.writeRecommitting): .refused(.writeRecommitting)
        case .wait(let wait): .wait(wait)
        // Another version replaced it, or it was purged.
        case .done, .prepared, .refused: .refused(.exists)
        }
    }

    private func change(
        _ document: DocumentAddress,
        _ found: ReadResult,
        cas: CAS,
        _ bounds: TransformBounds,
        _ transform: (DocumentView?, ByteWriter) -> DocumentChange,
        _ core: inout VBucketCore,
        _ turn: borrowing ExecutionContext
    ) -> DocumentResult<Update> {
        var old: DocumentMeta?
        let change: DocumentChange
        let writer = context.scratch
        writer.removeAll(keepingAtMost: 1 << 20)
        switch found {
        case .done(let (item, _)):
            if let refusal = core.refusal(item, cas, turn) { return .refused(refusal) }
            if item.valueCount > bounds.bytesMax {
                guard bounds.copiesDeferred else { return .done(.deferred(nil)) }
                return .done(.deferred(DocumentCopy(meta: item.meta, value: item.value.bytes)))
            }
            old = item.meta
            change = transform(DocumentView(meta: item.meta, value: item.value), writer)
        case .refused(.notFound):
            guard cas == .none || bounds.makesDespiteCAS else { return .refused(.notFound) }
            guard bounds.includesMissing else { return .done(.deferred(nil)) }
            change = transform(nil, writer)
        case .prepared, .wait, .refused: return found.map { _ in .unchanged }
        }
        let result: WriteResult
        switch change {
        case .keep: return .done(.unchanged)
        case .delete: result = core.delete(document.key, hash: document.hash, cas: cas, turn)
        case .store(let fields):
            result = store(fields, writer, document, old, cas: cas, &core, turn)
        }
        return result.map { .stored($0) }
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
    ) -> WriteResult {
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
        guard request.isWithinLimits else { return .refused(.tooLarge) }
        if !fields.macros.isEmpty {
            MacroPatch.expand(fields.macros, core.upcoming(turn), in: writer)
        }
        return core.store(request, turn)
    }
}
