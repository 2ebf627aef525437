/// One change of a vBucket, in order of seqno.
struct Change {
    enum Kind: UInt8 {
        /// A version with a sequence, written by the gateway or imported.
        case row
        /// A durable write: its sequence is drawn now, and it is visible after its commit.
        case prepare
        case commit
        case abort
        /// A write by another program: it has no sequence until the owner imports it.
        case foreign
    }

    var kind = Kind.row
    var document: Int8 = 0
    var sequence: Int32 = 0
    /// Of a version of the principal: the sequence of its grant; 0 before the grant.
    var granted: Int32 = 0
}

/// The history of one vBucket.
///
/// A copy is a prefix of the history: its length is the copy's high seqno. A promotion truncates
/// the history to the prefix of the promoted copy; a longer copy becomes empty. Ownership, leases
/// and seals belong to the other model (`World`).
struct History {
    static let changesMax = 44

    private var changes: [Change]
    private(set) var count = 0
    /// The highest seqno that a majority of the chain ever covered.
    var covered = 0
    /// The end of the shortest prefix with all versions that any client received.
    private(set) var delivered = 0
    /// Prepares below it were inherited from a former owner and may have been committed there.
    private(set) var inheritedEnd = 0

    init() { changes = .init(repeating: Change(), count: Self.changesMax) }

    /// The rest is for the commits and imports at the end of the walk.
    var isAlmostFull: Bool { count >= Self.changesMax - 8 }
    var isFull: Bool { count == Self.changesMax }

    subscript(place: Int) -> Change { changes[place] }

    mutating func append(_ change: Change) {
        changes[count] = change
        count += 1
    }

    /// The place of the document's newest version in a prefix; -1 if it has none, or if its newest
    /// version is not imported.
    func newestVersion(of document: Int, below end: Int) -> Int {
        var place = end - 1
        while place >= 0 {
            if Int(changes[place].document) == document {
                switch changes[place].kind {
                case .row, .commit: return place
                case .foreign: return -1
                case .prepare, .abort: break
                }
            }
            place -= 1
        }
        return -1
    }

    /// The kind of the document's last change in a prefix, and its place; nil if there is none.
    func lastChange(of document: Int, below end: Int) -> (kind: Change.Kind, place: Int)? {
        var place = end - 1
        while place >= 0 {
            if Int(changes[place].document) == document { return (changes[place].kind, place) }
            place -= 1
        }
        return nil
    }

    /// Whether the document's newest version in a prefix is another program's, without a number.
    func isUnnumbered(_ document: Int, below end: Int) -> Bool {
        var last = lastChange(of: document, below: end)
        if last?.kind == .prepare { return false }
        while let change = last, change.kind == .abort || change.kind == .prepare {
            last = lastChange(of: document, below: change.place)
        }
        return last?.kind == .foreign
    }

    /// Records that a client received the version at `place`; false if it is not in the history.
    mutating func noteDelivery(of sequence: Int32, at place: Int) -> Bool {
        delivered = max(delivered, place + 1)
        return place < count && changes[place].sequence == sequence
    }

    /// Ends the history at the prefix of a new owner; false if a client received a version above.
    mutating func truncate(to end: Int) -> Bool {
        count = end
        inheritedEnd = end
        covered = min(covered, end)
        return delivered <= end
    }
}
