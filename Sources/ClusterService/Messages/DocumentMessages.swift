internal import Bytes
internal import Vocabulary

/// What one node asks another to do to a document that lives there, for an administrator.
struct DocumentCall: PeerPayload, Hashable {
    enum Action: Hashable {
        case read
        /// Expiry as the protocol has it.
        case write(value: [UInt8], flags: UInt32, expiry: UInt32, preservesExpiry: Bool)
        case delete
        /// The key of some document; `key` says nothing.
        case randomKey
    }

    var bucket: String
    var key: [UInt8]
    var action: Action

    init(bucket: String, key: [UInt8], action: Action) {
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
                let expiry = reader.bigEndian(UInt32.self), let preserves = reader.flag()
            else { return nil }
            action = .write(
                value: value,
                flags: flags,
                expiry: expiry,
                preservesExpiry: preserves
            )
        case 2: action = .delete
        case 3: action = .randomKey
        default: return nil
        }
    }

    func append(to writer: ByteWriter) {
        writer.append(counted: bucket)
        writer.append(counted: key)
        switch action {
        case .read: writer.append(UInt8(0))
        case .write(let value, let flags, let expiry, let preservesExpiry):
            writer.append(UInt8(1))
            writer.append(counted: value)
            writer.append(bigEndian: flags)
            writer.append(bigEndian: expiry)
            writer.append(preservesExpiry)
        case .delete: writer.append(UInt8(2))
        case .randomKey: writer.append(UInt8(3))
        }
    }
}

/// What came of it.
enum DocumentOutcome: PeerPayload, Hashable {
    case found(DocumentMeta, value: [UInt8])
    case written(CAS)
    case notFound
    case noBucket
    case locked
    case tooBig
    case temporaryFailure
    /// The node asked does not serve the document.
    case notHere
    case failed(String)
    case key([UInt8])

    init?(_ reader: inout ByteReader) {
        switch reader.bigEndian(UInt8.self) {
        case 0:
            guard let meta = DocumentMeta(peer: &reader), let value = reader.counted() else {
                return nil
            }
            self = .found(meta, value: value)
        case 1:
            guard let cas = reader.bigEndian(UInt64.self) else { return nil }
            self = .written(CAS(cas))
        case 2: self = .notFound
        case 3: self = .noBucket
        case 4: self = .locked
        case 5: self = .tooBig
        case 6: self = .temporaryFailure
        case 7: self = .notHere
        case 8:
            guard let text = reader.text() else { return nil }
            self = .failed(text)
        case 9:
            guard let key = reader.counted() else { return nil }
            self = .key(key)
        default: return nil
        }
    }

    func append(to writer: ByteWriter) {
        switch self {
        case .found(let meta, let value):
            writer.append(UInt8(0))
            meta.append(peer: writer)
            writer.append(counted: value)
        case .written(let cas):
            writer.append(UInt8(1))
            writer.append(bigEndian: cas.value)
        case .notFound: writer.append(UInt8(2))
        case .noBucket: writer.append(UInt8(3))
        case .locked: writer.append(UInt8(4))
        case .tooBig: writer.append(UInt8(5))
        case .temporaryFailure: writer.append(UInt8(6))
        case .notHere: writer.append(UInt8(7))
        case .failed(let text):
            writer.append(UInt8(8))
            writer.append(counted: text)
        case .key(let key):
            writer.append(UInt8(9))
            writer.append(counted: key)
        }
    }
}

extension DocumentMeta {
    /// What an administrator sees of it; where it stands in its history is the other node's affair.
    fileprivate init?(peer reader: inout ByteReader) {
        guard let cas = reader.bigEndian(UInt64.self), let revision = reader.leb128(),
            let flags = reader.bigEndian(UInt32.self), let expiry = reader.bigEndian(UInt32.self),
            let datatype = reader.bigEndian(UInt8.self)
        else { return nil }
        self.init(
            cas: CAS(cas),
            revision: revision,
            flags: flags,
            expiry: expiry,
            datatype: Datatype(rawValue: datatype)
        )
    }

    fileprivate func append(peer writer: ByteWriter) {
        writer.append(bigEndian: cas.value)
        writer.append(leb: revision)
        writer.append(bigEndian: flags)
        writer.append(bigEndian: expiry)
        writer.append(datatype.rawValue)
    }
}

/// Asks a node for the first keys of a range among the documents it serves.
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

/// The keys, in order.
enum ListingOutcome: PeerPayload, Hashable {
    case keys([[UInt8]])
    case noBucket
    case temporaryFailure
    case failed(String)

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
