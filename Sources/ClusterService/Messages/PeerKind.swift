internal import Bytes
internal import Vocabulary

/// The kinds of messages and calls between nodes, by their numbers on the wire.
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
    static let certificate: UInt16 = 30

    /// The lowest feature level at which all members understand a kind.
    static func level(of kind: UInt16) -> FeatureLevel {
        switch kind {
        case randomKey: .first
        default: .lowest
        }
    }
}

/// Messages between nodes.
///
/// The link gives the length of a message. A message, and each record in it
/// (`ExtensibleFields`), can get fields at its end in a later release: a reader skips them. A new case
/// of an enum, or another meaning of a field, needs a new kind of message or a feature level instead.
extension Coded {
    /// Decodes a message; nil if it is malformed.
    init?(message: [UInt8]) {
        guard let value = try? Self(decoding: message, skipsRest: true) else { return nil }
        self = value
    }
}

extension PeerCalls {
    /// Calls a node; nil if it does not answer in time, or its answer is malformed.
    func ask<Answer: Coded>(
        _ kind: UInt16,
        _ call: some Coded,
        to node: NodeNumber,
        timeoutNanoseconds: UInt64
    ) async -> Answer? {
        let result = await self.call(
            kind,
            call.encoded,
            to: node,
            timeoutNanoseconds: timeoutNanoseconds
        )
        guard case .success(let bytes) = result else { return nil }
        return Answer(message: bytes)
    }
}

extension Coder {
    /// Codes a number in parts of `1 / unit`: rounded, and zero if it is negative or not finite.
    ///
    /// A decimal part has no exact `Double`: 1.001 × 1 000 is less than 1 001.
    mutating func parts(
        _ number: inout Double,
        per unit: Double,
        _ name: StaticString
    ) throws(CodingFailure) {
        // Every whole number up to it keeps its value through a division by a unit and back.
        let partsMax = 1e15
        let rounded = number.isFinite && number > 0 ? (number * unit).rounded() : 0
        var parts = UInt64(min(rounded, partsMax))
        try field(&parts, name)
        number = min(Double(parts), partsMax) / unit
    }
}
