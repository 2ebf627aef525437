internal import Bytes
internal import Vocabulary

/// A new epoch, as sent to each of its nodes for adoption.
struct EpochHandover: ExtensibleFields, Hashable {
    var epoch: UInt64 = 0
    var group: UInt64 = 0
    /// The groups from which the epoch was formed: only a member of one of them adopts it.
    var past: [UInt64] = []
    var term: UInt64 = 0
    var index: UInt64 = 0
    var voters: [NodeNumber] = []
    var learners: [NodeNumber] = []
    /// The cluster's state, encoded.
    var state: [UInt8] = []

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&epoch, "epoch")
        try coder.fixed(&group, "group")
        try coder.list(&past, "past groups", blank: 0) { coder, group throws(CodingFailure) in
            try coder.fixed(&group, "past group")
        }
        try coder.field(&term, "term")
        try coder.field(&index, "index")
        try coder.field(&voters, "voters")
        try coder.field(&learners, "learners")
        try coder.field(&state, "state")
    }
}

/// A node's epoch, and the end of its log in that epoch.
struct EpochPosition: ExtensibleFields, Hashable {
    var group: UInt64 = 0
    var epoch: UInt64 = 0
    /// The node's Raft term.
    var term: UInt64 = 0
    var lastTerm: UInt64 = 0
    var lastIndex: UInt64 = 0

    /// Whether the log at `one` is behind the log at `other`: by epoch, then by the last entry, as
    /// in Raft's elections.
    static func isBehind(_ one: EpochPosition, _ other: EpochPosition) -> Bool {
        (one.epoch, one.lastTerm, one.lastIndex) < (other.epoch, other.lastTerm, other.lastIndex)
    }

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.fixed(&group, "group")
        try coder.field(&epoch, "epoch")
        try coder.field(&term, "term")
        try coder.field(&lastTerm, "last term")
        try coder.field(&lastIndex, "last index")
    }
}

/// A call between members that may be of different epochs.
enum EpochCall: Coded, Hashable {
    case position
    /// Requests the position, and has the node ignore Raft messages for some seconds, so that the
    /// position stays valid.
    case survey(forming: UInt64)
    /// Requests the state with every entry of the node's log applied, committed or not.
    case state(forming: UInt64)
    case adopt(EpochHandover)

    func write(to writer: inout FieldWriter) {
        switch self {
        case .position: writer.kind(0)
        case .survey(let forming):
            writer.kind(1)
            writer.output.append(bigEndian: forming)
        case .state(let forming):
            writer.kind(2)
            writer.output.append(bigEndian: forming)
        case .adopt(let epoch): writer.kind(3, epoch)
        }
    }

    init(from reader: inout FieldReader) throws(CodingFailure) {
        switch try reader.kind("call") {
        case 0: self = .position
        case 1: self = .survey(forming: try reader.readFixed())
        case 2: self = .state(forming: try reader.readFixed())
        case 3: self = .adopt(try reader.payload())
        case let kind: throw reader.failure(.unknownKind(kind))
        }
    }
}

/// The answer to an `EpochCall`.
enum EpochAnswer: Coded, Hashable {
    case position(EpochPosition)
    case state([UInt8])
    case done
    /// The reason, as a sentence for the requesting operator.
    case refused(String)

    func write(to writer: inout FieldWriter) {
        switch self {
        case .position(let position): writer.kind(0, position)
        case .state(let state): writer.kind(1, state)
        case .done: writer.kind(2)
        case .refused(let reason): writer.kind(3, reason)
        }
    }

    init(from reader: inout FieldReader) throws(CodingFailure) {
        switch try reader.kind("answer") {
        case 0: self = .position(try reader.payload())
        case 1: self = .state(try reader.payload())
        case 2: self = .done
        case 3: self = .refused(try reader.payload())
        case let kind: throw reader.failure(.unknownKind(kind))
        }
    }
}
