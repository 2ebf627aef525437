internal import Bytes
internal import Vocabulary

/// An administrator's operation on one document, passed to the node that serves the document.
struct DocumentCall: PeerPayload, Hashable {
    var bucket: String
    var key: [UInt8]
    var action: DocumentAction

    init(bucket: String, key: [UInt8], action: DocumentAction) {
        self.bucket = bucket
        self.key = key
        self.action = action
    }

    init?(_ reader: inout ByteReader) {
        guard let bucket = reader.text(), let key = reader.counted(),
            let kind = reader.bigEndian(UInt8.self)
        else { return nil }
        self.bucket = bucket
        self.key = key
        switch kind {
        case 0: action = .read
        case 1:
            guard let value = reader.counted(), let flags = reader.bigEndian(UInt32.self),
                let expiry = reader.bigEndian(UInt32.self), let preserves = reader.flag(),
                let precondition = Precondition<CAS>(&reader)
            else { return nil }
            action = .write(
                value: value,
                flags: flags,
                expiry: expiry,
                preservesExpiry: preserves,
                precondition: precondition
            )
        case 2:
            guard let cas = reader.bigEndian(UInt64.self) else { return nil }
            action = .delete(cas: CAS(cas))
        default: return nil
        }
    }

    func append(to writer: ByteWriter) {
        writer.append(counted: bucket)
        writer.append(counted: key)
        switch action {
        case .read: writer.append(UInt8(0))
        case .write(let value, let flags, let expiry, let preservesExpiry, let precondition):
            writer.append(UInt8(1))
            writer.append(counted: value)
            writer.append(bigEndian: flags)
            writer.append(bigEndian: expiry)
            writer.append(preservesExpiry)
            precondition.append(to: writer)
        case .delete(let cas):
            writer.append(UInt8(2))
            writer.append(bigEndian: cas.value)
        }
    }
}

extension Precondition<CAS> {
    fileprivate init?(_ reader: inout ByteReader) {
        switch reader.bigEndian(UInt8.self) {
        case 0: self = .any
        case 1: self = .absent
        case 2:
            guard let cas = reader.bigEndian(UInt64.self) else { return nil }
            self = .version(CAS(cas))
        default: return nil
        }
    }

    fileprivate func append(to writer: ByteWriter) {
        switch self {
        case .any: writer.append(UInt8(0))
        case .absent: writer.append(UInt8(1))
        case .version(let cas):
            writer.append(UInt8(2))
            writer.append(bigEndian: cas.value)
        }
    }
}

extension DocumentOutcome: PeerPayload {
    init?(_ reader: inout ByteReader) {
        switch reader.bigEndian(UInt8.self) {
        case 0:
            guard let meta = reader.record(PeerDocumentMeta.self), let value = reader.counted()
            else { return nil }
            self = .found(DocumentCopy(meta: meta.meta, value: value))
        case 1:
            guard let cas = reader.bigEndian(UInt64.self), let uuid = reader.bigEndian(UInt64.self),
                let seqno = reader.bigEndian(UInt64.self)
            else { return nil }
            let version = DocumentVersion(
                cas: CAS(cas),
                uuid: VBucketUUID(uuid),
                seqno: Seqno(seqno)
            )
            self = .written(version)
        case 2:
            guard let number = reader.bigEndian(UInt8.self),
                let refusal = DocumentRefusal(rawValue: number)
            else { return nil }
            self = .refused(refusal)
        case 3: self = .noBucket
        case 4:
            guard let text = reader.text() else { return nil }
            self = .failed(text)
        case 5: self = .unchanged
        default: return nil
        }
    }

    func append(to writer: ByteWriter) {
        switch self {
        case .found(let copy):
            writer.append(UInt8(0))
            writer.append(record: PeerDocumentMeta(meta: copy.meta))
            writer.append(counted: copy.value)
        case .written(let version):
            writer.append(UInt8(1))
            writer.append(bigEndian: version.cas.value)
            writer.append(bigEndian: version.uuid.value)
            writer.append(bigEndian: version.seqno.value)
        case .unchanged: writer.append(UInt8(5))
        case .refused(let refusal):
            writer.append(UInt8(2))
            writer.append(refusal.rawValue)
        case .noBucket: writer.append(UInt8(3))
        case .failed(let text):
            writer.append(UInt8(4))
            writer.append(counted: text)
        }
    }
}

/// Requests the key of some document in a node's memory; answered with a `KeyListing` of one
/// key, or none.
struct RandomKeyCall: PeerPayload, Hashable {
    var bucket: String

    init(bucket: String) { self.bucket = bucket }

    init?(_ reader: inout ByteReader) {
        guard let bucket = reader.text() else { return nil }
        self.bucket = bucket
    }

    func append(to writer: ByteWriter) { writer.append(counted: bucket) }
}

/// The metadata of a document that an administrator sees.
///
/// The seqno is not sent: only the serving node uses it.
private struct PeerDocumentMeta: PeerPayload {
    let meta: DocumentMeta

    init(meta: DocumentMeta) { self.meta = meta }

    init?(_ reader: inout ByteReader) {
        guard let cas = reader.bigEndian(UInt64.self), let revision = reader.leb128(),
            let flags = reader.bigEndian(UInt32.self), let expiry = reader.bigEndian(UInt32.self),
            let datatype = reader.bigEndian(UInt8.self)
        else { return nil }
        meta = DocumentMeta(
            cas: CAS(cas),
            revision: revision,
            flags: flags,
            expiry: expiry,
            datatype: Datatype(rawValue: datatype)
        )
    }

    func append(to writer: ByteWriter) {
        writer.append(bigEndian: meta.cas.value)
        writer.append(leb: meta.revision)
        writer.append(bigEndian: meta.flags)
        writer.append(bigEndian: meta.expiry)
        writer.append(meta.datatype.rawValue)
    }
}

/// Requests the first keys of a range among the documents that a node serves.
struct ListingCall: PeerPayload, Hashable {
    var bucket: String
    var from: [UInt8]?
    var to: [UInt8]?
    var inclusiveEnd: Bool
    var limit: Int

    init(bucket: String, from: [UInt8]?, to: [UInt8]?, inclusiveEnd: Bool, limit: Int) {
        self.bucket = bucket
        self.from = from
        self.to = to
        self.inclusiveEnd = inclusiveEnd
        self.limit = limit
    }

    init?(_ reader: inout ByteReader) {
        guard let bucket = reader.text(), let hasFrom = reader.flag(),
            let from = reader.counted(), let hasTo = reader.flag(), let to = reader.counted(),
            let inclusiveEnd = reader.flag(), let limit = reader.leb(Int.self)
        else { return nil }
        self.bucket = bucket
        self.from = hasFrom ? from : nil
        self.to = hasTo ? to : nil
        self.inclusiveEnd = inclusiveEnd
        self.limit = limit
    }

    func append(to writer: ByteWriter) {
        writer.append(counted: bucket)
        for bound in [from, to] {
            writer.append(bound != nil)
            writer.append(counted: bound ?? [])
        }
        writer.append(inclusiveEnd)
        writer.append(leb: limit)
    }
}

extension KeyListing: PeerPayload {
    init?(_ reader: inout ByteReader) {
        switch reader.bigEndian(UInt8.self) {
        case 0:
            guard let count = reader.leb(Int.self), count <= reader.rest.count else { return nil }
            var keys: [[UInt8]] = []
            for _ in 0..<count {
                guard let key = reader.counted() else { return nil }
                keys.append(key)
            }
            self = .keys(keys)
        case 1: self = .noBucket
        case 2: self = .temporaryFailure
        case 3:
            guard let text = reader.text() else { return nil }
            self = .failed(text)
        default: return nil
        }
    }

    func append(to writer: ByteWriter) {
        switch self {
        case .keys(let keys):
            writer.append(UInt8(0))
            writer.append(leb: keys.count)
            for key in keys { writer.append(counted: key) }
        case .noBucket: writer.append(UInt8(1))
        case .temporaryFailure: writer.append(UInt8(2))
        case .failed(let text):
            writer.append(UInt8(3))
            writer.append(counted: text)
        }
    }
}
