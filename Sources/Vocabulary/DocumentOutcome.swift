/// One version of a document, copied out of memory.
package struct DocumentCopy: Hashable, Sendable {
    package let meta: DocumentMeta
    package let value: [UInt8]

    package init(meta: DocumentMeta, value: [UInt8]) {
        self.meta = meta
        self.value = value
    }
}

/// A stored version: its CAS, and its place in the history of its vBucket.
package struct DocumentVersion: Hashable, Sendable {
    package let cas: CAS
    package let uuid: VBucketUUID
    package let seqno: Seqno

    package init(cas: CAS, uuid: VBucketUUID, seqno: Seqno) {
        self.cas = cas
        self.uuid = uuid
        self.seqno = seqno
    }
}

/// An operation on one document, as a caller without a connection requests it.
package enum DocumentAction: Hashable, Sendable {
    case read
    /// `expiry` is the protocol's field: 0 never, up to 30 days relative, beyond that since 1970.
    case write(
        value: [UInt8],
        flags: UInt32,
        expiry: UInt32,
        preservesExpiry: Bool,
        precondition: Precondition<CAS> = .any
    )
    /// `cas` is the version to delete; `none` for any.
    case delete(cas: CAS = .none)
}

/// How an operation on one document ended, for a caller without a connection.
package enum DocumentOutcome: Hashable, Sendable {
    case found(DocumentCopy)
    /// The write is applied, and as durable as the bucket requires.
    case written(DocumentVersion)
    /// An update's transform chose to store nothing.
    case unchanged
    case refused(DocumentRefusal)
    case noBucket
    /// The node could not carry the operation out: a sentence with the cause.
    case failed(String)
}

/// Why an operation on a document had no effect.
///
/// Each front end (memcached, REST) maps these to its protocol's statuses; no other type lists
/// them.
package enum DocumentRefusal: UInt8, CaseIterable, Hashable, Sendable {
    case notFound
    /// A document exists, or has another version than the request's CAS names.
    case exists
    case locked
    /// UNLOCK names a document that is not locked.
    case notLocked
    /// APPEND and PREPEND name a document that does not exist.
    case notStored
    /// The value that a counter operation names is not a number.
    case notANumber
    case tooLarge
    /// The document does not fit into the bucket's memory quota, even if everything else is
    /// ejected.
    case exceedsMemory
    /// Memory is short, or the copy is still being loaded or built: retry later.
    case temporaryFailure
    /// This node does not serve the vBucket, or its lease has ended.
    case notMyVBucket
    /// Another durable write of the key is pending.
    case writeInProgress
    /// The same; the write was inherited from a former active copy and is being committed again.
    case writeRecommitting
    /// The bucket does not support the requested durability level.
    case durabilityLevelInvalid
    /// Too few nodes have a copy for the requested durability level.
    case durabilityImpossible
    /// The write was prepared; whether it is committed is unknown.
    case durabilityAmbiguous
}

/// Keys of live documents, in the order of their bytes.
package enum KeyListing: Hashable, Sendable {
    case keys([[UInt8]])
    case noBucket
    /// A node is busy, is warming up or does not respond: retry later.
    case temporaryFailure
    /// The node could not list them: a sentence with the cause.
    case failed(String)
}
