package import Bytes

/// One version of a document, copied out of memory.
package struct DocumentCopy: Hashable, Sendable {
    package let meta: DocumentMeta
    package let value: [UInt8]

    package init(meta: DocumentMeta, value: [UInt8]) {
        self.meta = meta
        self.value = value
    }
}

/// One version of a document, a tombstone included, whose value is borrowed.
package struct DocumentView {
    package let meta: DocumentMeta
    /// The stored form: attributes, if the datatype says so, then the body.
    package let value: ByteView

    package init(meta: DocumentMeta, value: ByteView) {
        self.meta = meta
        self.value = value
    }

    /// The value without extended attributes.
    package var body: ByteView { XattrBlob.body(of: value, meta.datatype) }

    /// The extended attributes; nil if there are none.
    package var attributes: XattrBlob? {
        meta.datatype.contains(.xattr) ? XattrBlob(stored: value) : nil
    }

    package var isJSON: Bool { meta.datatype.contains(.json) }
}

/// A stored version: its CAS, and its place in the history of its vBucket.
package struct DocumentVersion: Hashable, Sendable {
    package private(set) var cas: CAS
    package private(set) var uuid: VBucketUUID
    package private(set) var seqno: Seqno

    package init(cas: CAS, uuid: VBucketUUID, seqno: Seqno) {
        self.cas = cas
        self.uuid = uuid
        self.seqno = seqno
    }
}

extension DocumentVersion: CodedFields {
    package init() { self.init(cas: .none, uuid: VBucketUUID(0), seqno: .zero) }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&cas, "CAS")
        try coder.field(&uuid, "UUID")
        var number = seqno.value
        try coder.fixed(&number, "seqno")
        seqno = Seqno(number)
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

extension DocumentAction: Coded {
    package func write(to writer: inout FieldWriter) {
        switch self {
        case .read: writer.kind(0)
        case .write(let value, let flags, let expiry, let preservesExpiry, let precondition):
            writer.kind(1, value)
            writer.output.append(bigEndian: flags)
            writer.output.append(bigEndian: expiry)
            preservesExpiry.write(to: &writer)
            precondition.write(to: &writer)
        case .delete(let cas): writer.kind(2, cas)
        }
    }

    package init(from reader: inout FieldReader) throws(CodingFailure) {
        switch try reader.kind("action") {
        case 0: self = .read
        case 1:
            self = .write(
                value: try reader.payload(),
                flags: try reader.readFixed(),
                expiry: try reader.readFixed(),
                preservesExpiry: try reader.payload(),
                precondition: try reader.payload()
            )
        case 2: self = .delete(cas: try reader.payload())
        case let kind: throw reader.failure(.unknownKind(kind))
        }
    }
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

extension DocumentOutcome: Coded {
    /// The metadata of a document that an administrator sees.
    ///
    /// The seqno is not sent: only the serving node uses it.
    private struct Meta: ExtensibleFields {
        var meta = DocumentMeta()

        mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
            try coder.field(&meta.cas, "CAS")
            try coder.field(&meta.revision, "revision")
            try coder.fixed(&meta.flags, "flags")
            try coder.fixed(&meta.expiry, "expiry")
            try coder.choice(&meta.datatype, "datatype")
        }
    }

    package func write(to writer: inout FieldWriter) {
        switch self {
        case .found(let copy): writer.kind(0, Meta(meta: copy.meta), copy.value)
        case .written(let version): writer.kind(1, version)
        case .refused(let refusal): writer.kind(2, refusal.rawValue)
        case .noBucket: writer.kind(3)
        case .failed(let cause): writer.kind(4, cause)
        case .unchanged: writer.kind(5)
        }
    }

    package init(from reader: inout FieldReader) throws(CodingFailure) {
        switch try reader.kind("outcome") {
        case 0:
            let meta: Meta = try reader.payload()
            self = .found(DocumentCopy(meta: meta.meta, value: try reader.payload()))
        case 1: self = .written(try reader.payload())
        case 2:
            var refusal = DocumentRefusal.notFound
            try reader.choice(&refusal, "refusal")
            self = .refused(refusal)
        case 3: self = .noBucket
        case 4: self = .failed(try reader.payload())
        case 5: self = .unchanged
        case let kind: throw reader.failure(.unknownKind(kind))
        }
    }
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

extension KeyListing: Coded {
    package func write(to writer: inout FieldWriter) {
        switch self {
        case .keys(let keys): writer.kind(0, keys)
        case .noBucket: writer.kind(1)
        case .temporaryFailure: writer.kind(2)
        case .failed(let cause): writer.kind(3, cause)
        }
    }

    package init(from reader: inout FieldReader) throws(CodingFailure) {
        switch try reader.kind("listing") {
        case 0: self = .keys(try reader.payload())
        case 1: self = .noBucket
        case 2: self = .temporaryFailure
        case 3: self = .failed(try reader.payload())
        case let kind: throw reader.failure(.unknownKind(kind))
        }
    }
}
