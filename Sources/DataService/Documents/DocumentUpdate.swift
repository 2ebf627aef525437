package import Bytes
internal import Engine
package import Vocabulary

/// A document for the transform of an update; valid only during the call.
package struct DocumentView {
    package let meta: DocumentMeta
    package let value: ByteView
}

/// The change that the transform of an update makes.
package enum DocumentChange: Sendable {
    /// Store nothing.
    case keep
    /// Store the bytes that the transform wrote.
    case store(Fields)
    /// Delete the document; refused with `notFound` if there is none.
    case delete

    /// What is stored with the bytes.
    package struct Fields: Sendable {
        /// Nil keeps the current ones.
        package var flags: UInt32?
        /// In the protocol's format; nil keeps the current expiry.
        package var expiry: UInt32?
        /// Nil derives it from the value.
        package var datatype: Datatype?

        package init(flags: UInt32? = nil, expiry: UInt32? = nil, datatype: Datatype? = nil) {
            self.flags = flags
            self.expiry = expiry
            self.datatype = datatype
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
    /// The value is larger than `bytesMax`: a copy, to be transformed without the lock.
    case deferred(DocumentCopy)
}

extension DocumentOperations {
    /// Reads a document, transforms it and stores the result in one hold of the vBucket's lock.
    ///
    /// - Parameters:
    ///   - document: The document, which need not exist.
    ///   - cas: The version to change, or none for the current one.
    ///   - bytesMax: The largest value that is transformed under the lock.
    ///   - transform: The change.
    /// - Returns: The outcome; with `deferred` nothing was stored.
    func update(
        _ document: DocumentAddress,
        cas: CAS,
        bytesMax: Int,
        _ transform: DocumentTransform
    ) -> UpdateOutcome {
        func body(_ core: inout VBucketCore, _ turn: borrowing ExecutionContext) -> Change {
            change(document, cas: cas, bytesMax: bytesMax, transform, &core, turn)
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
            return .ended(finish(outcome, document.id, .sets, cas: cas))
        case .unchanged: return .unchanged
        case .deferred(let copy): return .deferred(copy)
        }
    }

    /// The result of the transform under the lock.
    private enum Change: MutationCarrier {
        case mutation(MutationOutcome)
        case unchanged
        case deferred(DocumentCopy)

        var mutation: MutationOutcome? {
            if case .mutation(let outcome) = self { outcome } else { nil }
        }
    }

    /// Stores a change of a version that was copied out before.
    ///
    /// - Returns: `refused(.exists)` if another version is current.
    func store(
        _ change: DocumentChange,
        _ value: ByteView,
        of document: DocumentAddress,
        replacing old: DocumentMeta
    ) -> UpdateOutcome {
        switch change {
        case .keep: .unchanged
        case .delete: .ended(delete(document, cas: old.cas))
        case .store(let fields):
            .ended(store(document, request(fields, value, document, old, cas: old.cas)))
        }
    }

    private func change(
        _ document: DocumentAddress,
        cas: CAS,
        bytesMax: Int,
        _ transform: DocumentTransform,
        _ core: inout VBucketCore,
        _ turn: borrowing ExecutionContext
    ) -> Change {
        var old: DocumentMeta?
        let change: DocumentChange
        let writer = context.scratch
        writer.removeAll(keepingAtMost: 1 << 20)
        switch core.get(document.key, hash: document.hash, turn) {
        case .found(let item, _):
            if let refusal = core.refusal(item, cas, turn) { return .mutation(refusal) }
            if item.valueCount > bytesMax {
                return .deferred(DocumentCopy(meta: item.meta, value: item.value.bytes))
            }
            old = item.meta
            change = transform(DocumentView(meta: item.meta, value: item.value), writer)
        case .notFound:
            guard cas == .none else { return .mutation(.notFound) }
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
            guard writer.count <= Limits.valueBytesMax else { return .mutation(.tooLarge) }
            let request = request(fields, writer.view, document, old, cas: cas)
            return .mutation(core.store(request, turn))
        }
    }

    private func request(
        _ fields: DocumentChange.Fields,
        _ value: ByteView,
        _ document: DocumentAddress,
        _ old: DocumentMeta?,
        cas: CAS
    ) -> StoreRequest {
        StoreRequest(
            key: document.key,
            hash: document.hash,
            value: value,
            flags: fields.flags ?? old?.flags ?? 0,
            expiry: expiry(ofField: fields.expiry ?? 0),
            datatype: fields.datatype ?? datatype(of: value),
            cas: cas,
            mode: old == nil ? .add : .set,
            preservesExpiry: fields.expiry == nil && old != nil
        )
    }
}
