internal import Bytes
internal import Vocabulary

/// A new epoch, as sent to each of its nodes for adoption.
struct EpochHandover: PeerPayload, Hashable {
    var epoch: UInt64
    var group: UInt64
    /// The groups from which the epoch was formed: only a member of one of them adopts it.
    var past: [UInt64]
    var term: UInt64
    var index: UInt64
    var voters: [NodeNumber]
    var learners: [NodeNumber]
    /// The cluster's state, encoded.
    var state: [UInt8]

    init(
        epoch: UInt64,
        group: UInt64,
        past: [UInt64],
        term: UInt64,
        index: UInt64,
        voters: [NodeNumber],
        learners: [NodeNumber],
        state: [UInt8]
    ) {
        self.epoch = epoch
        self.group = group
        self.past = past
        self.term = term
        self.index = index
        self.voters = voters
        self.learners = learners
        self.state = state
    }

    init?(_ reader: inout ByteReader) {
        guard let epoch = reader.leb128(), let group = reader.bigEndian(UInt64.self),
            let count = reader.leb(Int.self), count <= reader.rest.count
        else { return nil }
        var past: [UInt64] = []
        for _ in 0..<count {
            guard let group = reader.bigEndian(UInt64.self) else { return nil }
            past.append(group)
        }
        guard let term = reader.leb128(), let index = reader.leb128(),
            let voters = reader.nodes(), let learners = reader.nodes(),
            let state = reader.counted()
        else { return nil }
        self.init(
            epoch: epoch,
            group: group,
            past: past,
            term: term,
            index: index,
            voters: voters,
            learners: learners,
            state: state
        )
    }

    func append(to writer: ByteWriter) {
        writer.append(leb: epoch)
        writer.append(bigEndian: group)
        writer.append(leb: past.count)
        for group in past { writer.append(bigEndian: group) }
        writer.append(leb: term)
        writer.append(leb: index)
        writer.append(nodes: voters)
        writer.append(nodes: learners)
        writer.append(counted: state)
    }
}

/// A node's epoch, and the end of its log in that epoch.
struct EpochPosition: PeerPayload, Hashable {
    var group: UInt64
    var epoch: UInt64
    /// The node's Raft term.
    var term: UInt64
    var lastTerm: UInt64
    var lastIndex: UInt64

    init(group: UInt64, epoch: UInt64, term: UInt64, lastTerm: UInt64, lastIndex: UInt64) {
        self.group = group
        self.epoch = epoch
        self.term = term
        self.lastTerm = lastTerm
        self.lastIndex = lastIndex
    }

    /// Whether the log at `one` is behind the log at `other`: by epoch, then by the last entry, as
    /// in Raft's elections.
    static func isBehind(_ one: EpochPosition, _ other: EpochPosition) -> Bool {
        (one.epoch, one.lastTerm, one.lastIndex) < (other.epoch, other.lastTerm, other.lastIndex)
    }

    init?(_ reader: inout ByteReader) {
        guard let group = reader.bigEndian(UInt64.self), let epoch = reader.leb128(),
            let term = reader.leb128(), let lastTerm = reader.leb128(),
            let lastIndex = reader.leb128()
        else { return nil }
        self.init(group: group, epoch: epoch, term: term, lastTerm: lastTerm, lastIndex: lastIndex)
    }

    func append(to writer: ByteWriter) {
        writer.append(bigEndian: group)
        for number in [epoch, term, lastTerm, lastIndex] { writer.append(leb: number) }
    }
}

/// A call between members that may be of different epochs.
enum EpochCall: PeerPayload, Hashable {
    case position
    /// Requests the position, and has the node ignore Raft messages for some seconds, so that the
    /// position stays valid.
    case survey(forming: UInt64)
    /// Requests the state with every entry of the node's log applied, committed or not.
    case state(forming: UInt64)
    case adopt(EpochHandover)

    init?(_ reader: inout ByteReader) {
        switch reader.bigEndian(UInt8.self) {
        case 0: self = .position
        case 1:
            guard let forming = reader.bigEndian(UInt64.self) else { return nil }
            self = .survey(forming: forming)
        case 2:
            guard let forming = reader.bigEndian(UInt64.self) else { return nil }
            self = .state(forming: forming)
        case 3:
            guard let epoch = reader.record(EpochHandover.self) else { return nil }
            self = .adopt(epoch)
        default: return nil
        }
    }

    func append(to writer: ByteWriter) {
        switch self {
        case .position: writer.append(UInt8(0))
        case .survey(let forming):
            writer.append(UInt8(1))
            writer.append(bigEndian: forming)
        case .state(let forming):
            writer.append(UInt8(2))
            writer.append(bigEndian: forming)
        case .adopt(let epoch):
            writer.append(UInt8(3))
            writer.append(record: epoch)
        }
    }
}

/// The answer to an `EpochCall`.
enum EpochAnswer: PeerPayload, Hashable {
    case position(EpochPosition)
    case state([UInt8])
    case done
    /// The reason, as a sentence for the requesting operator.
    case refused(String)

    init?(_ reader: inout ByteReader) {
        switch reader.bigEndian(UInt8.self) {
        case 0:
            guard let position = reader.record(EpochPosition.self) else { return nil }
            self = .position(position)
        case 1:
            guard let state = reader.counted() else { return nil }
            self = .state(state)
        case 2: self = .done
        case 3:
            guard let reason = reader.text() else { return nil }
            self = .refused(reason)
        default: return nil
        }
    }

    func append(to writer: ByteWriter) {
        switch self {
        case .position(let position):
            writer.append(UInt8(0))
            writer.append(record: position)
        case .state(let state):
            writer.append(UInt8(1))
            writer.append(counted: state)
        case .done: writer.append(UInt8(2))
        case .refused(let reason):
            writer.append(UInt8(3))
            writer.append(counted: reason)
        }
    }
}
