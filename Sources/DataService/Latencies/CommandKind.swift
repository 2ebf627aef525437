internal import Wire

/// The kinds of commands whose latencies are recorded, with Couchbase's names for them.
///
/// A quiet command has the kind of its loud form. A kind is a number below 64, so that the kinds of a
/// turn are the bits of a word.
enum CommandKind {
    /// In the order of the kinds' numbers.
    static let all: [(opcode: Opcode, name: String)] = [
        (.get, "GET"), (.set, "SET"), (.add, "ADD"), (.replace, "REPLACE"), (.delete, "DELETE"),
        (.increment, "INCREMENT"), (.decrement, "DECREMENT"), (.append, "APPEND"),
        (.prepend, "PREPEND"), (.getKey, "GETK"), (.touch, "TOUCH"), (.getAndTouch, "GAT"),
        (.getAndTouchKey, "GATK"), (.getReplica, "GET_REPLICA"), (.getLocked, "GET_LOCKED"),
        (.unlock, "UNLOCK_KEY"), (.getMeta, "GET_META"), (.setWithMeta, "SET_WITH_META"),
        (.addWithMeta, "ADD_WITH_META"), (.deleteWithMeta, "DEL_WITH_META"),
        (.subdocGet, "SUBDOC_GET"), (.subdocExists, "SUBDOC_EXISTS"),
        (.subdocDictionaryAdd, "SUBDOC_DICT_ADD"),
        (.subdocDictionaryUpsert, "SUBDOC_DICT_UPSERT"), (.subdocDelete, "SUBDOC_DELETE"),
        (.subdocReplace, "SUBDOC_REPLACE"), (.subdocArrayPushLast, "SUBDOC_ARRAY_PUSH_LAST"),
        (.subdocArrayPushFirst, "SUBDOC_ARRAY_PUSH_FIRST"),
        (.subdocArrayInsert, "SUBDOC_ARRAY_INSERT"),
        (.subdocArrayAddUnique, "SUBDOC_ARRAY_ADD_UNIQUE"), (.subdocCounter, "SUBDOC_COUNTER"),
        (.subdocMultiLookup, "SUBDOC_MULTI_LOOKUP"),
        (.subdocMultiMutation, "SUBDOC_MULTI_MUTATION"), (.subdocGetCount, "SUBDOC_GET_COUNT"),
        (.subdocReplaceBodyWithXattr, "SUBDOC_REPLACE_BODY_WITH_XATTR"), (.quit, "QUIT"),
        (.flush, "FLUSH"), (.noop, "NOOP"), (.version, "VERSION"), (.stat, "STAT"),
        (.verbosity, "VERBOSITY"), (.hello, "HELO"), (.saslListMechanisms, "SASL_LIST_MECHS"),
        (.saslAuth, "SASL_AUTH"), (.saslStep, "SASL_STEP"), (.tapConnect, "TAP_CONNECT"),
        (.getAllVBucketSeqnos, "GET_ALL_VB_SEQNOS"), (.dcpOpen, "DCP_OPEN"),
        (.dcpAddStream, "DCP_ADD_STREAM"), (.dcpCloseStream, "DCP_CLOSE_STREAM"),
        (.dcpStreamRequest, "DCP_STREAM_REQ"), (.dcpGetFailoverLog, "DCP_GET_FAILOVER_LOG"),
        (.dcpNoop, "DCP_NOOP"), (.dcpBufferAcknowledgement, "DCP_BUFFER_ACKNOWLEDGEMENT"),
        (.dcpControl, "DCP_CONTROL"), (.selectBucket, "SELECT_BUCKET"),
        (.observeSeqno, "OBSERVE_SEQNO"), (.observe, "OBSERVE"),
        (.getFailoverLog, "GET_FAILOVER_LOG"), (.getClusterConfig, "GET_CLUSTER_CONFIG"),
        (.getRandomKey, "GET_RANDOM_KEY"),
        (.collectionsGetManifest, "COLLECTIONS_GET_MANIFEST"), (.getErrorMap, "GET_ERROR_MAP"),
    ]

    /// The number of kinds in a bucket's table: those of commands, then those of `Latency`.
    static let countMax = 64

    /// The kind of requests that are no commands; nothing is recorded of it.
    static let none = UInt8(countMax - 1)

    /// The kinds by opcode number.
    static let numbers: [UInt8] = Command.table.map { command in
        guard let command else { return none }
        guard let number = all.firstIndex(where: { $0.opcode == command.opcode }) else {
            preconditionFailure("every command has a kind of latency: \(command.opcode)")
        }
        return UInt8(number)
    }
}

/// The commands of a connection's turn by kind; they end together, so each kind is recorded once.
///
/// - A command is added when it is done with the turn. One that waits meanwhile is removed before, so the
///   number of a kind may be below zero until then.
struct CommandTally {
    /// A bit for each kind that occurred, then the number of each kind.
    private let words: UnsafeMutablePointer<UInt64>
    /// By opcode number.
    private let kinds: UnsafeMutablePointer<UInt8>

    init() {
        words = .allocate(capacity: 1 + CommandKind.countMax)
        words.initialize(repeating: 0, count: 1 + CommandKind.countMax)
        let numbers = CommandKind.numbers
        kinds = .allocate(capacity: numbers.count)
        for (opcode, kind) in numbers.enumerated() { kinds[opcode] = kind }
    }

    func deallocate() {
        words.deallocate()
        kinds.deallocate()
    }

    @inline(__always)
    var isEmpty: Bool { words[0] == 0 }

    @inline(__always)
    func kind(of header: FrameHeader) -> UInt8 { kinds[Int(header.opcodeByte)] }

    /// Adds a command that ends with the turn.
    @inline(__always)
    func add(_ header: FrameHeader) {
        let kind = kind(of: header)
        words[0] |= 1 &<< UInt64(truncatingIfNeeded: kind)
        words[1 &+ Int(kind)] &+= 1
    }

    /// Removes a command that waits, or has waited: it is recorded by itself.
    func remove(_ kind: UInt8) { words[1 + Int(kind)] &-= 1 }

    /// Passes each kind with its number of commands.
    func visit(_ body: (_ kind: Int, _ count: UInt64) -> Void) {
        for kind in 0..<Int(CommandKind.none) where words[0] >> UInt64(kind) & 1 == 1 {
            let count = words[1 + kind]
            if Int64(bitPattern: count) > 0 { body(kind, count) }
        }
    }

    /// Passes each kind with its number of commands, and removes it.
    @inline(__always)
    func removeAll(_ body: (_ kind: Int, _ count: UInt64) -> Void) {
        var kinds = words[0]
        words[0] = 0
        while kinds != 0 {
            let kind = kinds.trailingZeroBitCount
            kinds &= kinds &- 1
            let count = words[1 &+ kind]
            words[1 &+ kind] = 0
            if Int64(bitPattern: count) > 0, kind != Int(CommandKind.none) { body(kind, count) }
        }
    }
}
