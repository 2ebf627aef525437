internal import Bytes
internal import Vocabulary
internal import Wire

/// The kinds of frames between nodes, by their numbers on the wire.
///
/// A number is never reused. A node ignores a message of an unknown kind, and refuses a call of
/// one. A kind that a later release added has a feature level, below which `PeerCalls` does not
/// send it.
enum PeerKind {
    static let raft: UInt16 = 1
    static let beat: UInt16 = 2
    static let beatReply: UInt16 = 3
    static let forward: UInt16 = 4
    static let engage: UInt16 = 5
    static let leave: UInt16 = 6
    static let reports: UInt16 = 7
    static let seal: UInt16 = 8
    static let activate: UInt16 = 9
    static let handOver: UInt16 = 10
    static let statistics: UInt16 = 11
    static let document: UInt16 = 12
    static let listing: UInt16 = 13
    static let leader: UInt16 = 14
    static let history: UInt16 = 15
    static let events: UInt16 = 16
    static let compact: UInt16 = 17
    static let epoch: UInt16 = 20
    static let served: UInt16 = 21
    static let place: UInt16 = 22
    static let randomKey: UInt16 = 23
    static let compactViews: UInt16 = 24
    static let viewStatistics: UInt16 = 25
    static let purge: UInt16 = 26
    static let cancelCompaction: UInt16 = 27
    static let describe: UInt16 = 28
    static let join: UInt16 = 29

    /// The lowest feature level at which all members understand a kind.
    static func level(of kind: UInt16) -> FeatureLevel {
        switch kind {
        case randomKey: .first
        default: .lowest
        }
    }
}

extension PeerService {
    /// The lowest feature level at which all members understand the service.
    var level: FeatureLevel {
        switch self {
        case .feeds: .first
        case .control, .changes, .join, .epoch, .views: .lowest
        }
    }
}

/// The content of one frame, with its encoding and decoding.
///
/// Decoding returns a value or nil for any bytes that a peer sends. It never traps, and a count in
/// the bytes is checked before memory is reserved for it.
///
/// A payload is a record. Its length is that of its frame, or precedes it (`append(record:)`) if it
/// is part of another payload. A reader skips the bytes after the fields that it knows, so a later
/// release can add fields at the end. A new case of an enum, or another meaning of a field, needs a
/// new kind of message or a feature level instead.
protocol PeerPayload: Sendable {
    init?(_ reader: inout ByteReader)
    func append(to writer: ByteWriter)
}

extension PeerPayload {
    /// Decodes a record; skips fields at its end that this release does not know.
    init?(bytes: [UInt8]) {
        let value = bytes.withUnsafeBytes { buffer -> Self? in
            var reader = ByteReader(ByteView(buffer))
            return Self(&reader)
        }
        guard let value else { return nil }
        self = value
    }

    var bytes: [UInt8] {
        let writer = ByteWriter()
        append(to: writer)
        return writer.bytes
    }
}

// MARK: Parts of payloads

extension ByteWriter {
    func append(leb number: some BinaryInteger) {
        LEB128.append(UInt64(number), to: self)
    }

    /// Appends a number in parts of `1 / unit`; zero if it is negative or not finite.
    ///
    /// Rounds, because a decimal part has no exact `Double`: 1.001 × 1 000 is less than 1 001.
    func append(_ number: Double, unit: Double) {
        let parts = number.isFinite && number > 0 ? (number * unit).rounded() : 0
        append(leb: UInt64(min(parts, PeerPayloadLimit.parts)))
    }

    func append(_ node: NodeNumber) { append(leb: node.value) }

    func append(_ flag: Bool) { append(UInt8(flag ? 1 : 0)) }

    func append(counted bytes: [UInt8]) {
        append(leb: bytes.count)
        append(bytes)
    }

    func append(counted text: String) { append(counted: Array(text.utf8)) }

    /// Appends a payload within another one: its length, then its fields.
    func append(record payload: some PeerPayload) { append(counted: payload.bytes) }

    func append(all payloads: [some PeerPayload]) {
        append(leb: payloads.count)
        for payload in payloads { append(record: payload) }
    }

    func append(nodes: [NodeNumber]) {
        append(leb: nodes.count)
        for node in nodes { append(node) }
    }
}

private enum PeerPayloadLimit {
    /// Every whole number up to it keeps its value through a division by a unit and back.
    static let parts = 1e15
}

extension ByteReader {
    mutating func leb<Integer: FixedWidthInteger>(_ type: Integer.Type) -> Integer? {
        leb128().flatMap { Integer(exactly: $0) }
    }

    /// A number in parts of `1 / unit`.
    mutating func number(unit: Double) -> Double? {
        leb128().map { min(Double($0), PeerPayloadLimit.parts) / unit }
    }

    mutating func node() -> NodeNumber? { leb(UInt16.self).map { NodeNumber($0) } }

    mutating func flag() -> Bool? {
        guard let byte = bigEndian(UInt8.self), byte <= 1 else { return nil }
        return byte == 1
    }

    mutating func counted() -> [UInt8]? {
        guard let count = leb(Int.self) else { return nil }
        return bytes(count)?.bytes
    }

    mutating func text() -> String? { counted().map { String(decoding: $0, as: UTF8.self) } }

    /// Reads what `append(record:)` wrote; skips fields at its end that this release does not know.
    mutating func record<Payload: PeerPayload>(_ type: Payload.Type) -> Payload? {
        guard let count = leb(Int.self), let bytes = bytes(count) else { return nil }
        var fields = ByteReader(bytes)
        return Payload(&fields)
    }

    mutating func all<Payload: PeerPayload>(_ type: Payload.Type) -> [Payload]? {
        guard let count = leb(Int.self), count <= rest.count else { return nil }
        var payloads: [Payload] = []
        for _ in 0..<count {
            guard let payload = record(type) else { return nil }
            payloads.append(payload)
        }
        return payloads
    }

    mutating func nodes() -> [NodeNumber]? {
        guard let count = leb(Int.self), count <= rest.count else { return nil }
        var nodes: [NodeNumber] = []
        for _ in 0..<count {
            guard let node = node() else { return nil }
            nodes.append(node)
        }
        return nodes
    }
}
