/// The commands by name and number.
///
/// An enum, so that a dispatcher switches through one jump table; a byte that is no command has no
/// `Opcode`, and the frame's `opcodeByte` is what an answer echoes.
@usableFromInline
package enum Opcode: UInt8, CaseIterable, Sendable {
    case get = 0x00
    case set = 0x01
    case add = 0x02
    case replace = 0x03
    case delete = 0x04
    case increment = 0x05
    case decrement = 0x06
    case quit = 0x07
    case flush = 0x08
    case getQuiet = 0x09
    case noop = 0x0a
    case version = 0x0b
    case getKey = 0x0c
    case getKeyQuiet = 0x0d
    case append = 0x0e
    case prepend = 0x0f
    case stat = 0x10
    case setQuiet = 0x11
    case addQuiet = 0x12
    case replaceQuiet = 0x13
    case deleteQuiet = 0x14
    case incrementQuiet = 0x15
    case decrementQuiet = 0x16
    case quitQuiet = 0x17
    case flushQuiet = 0x18
    case appendQuiet = 0x19
    case prependQuiet = 0x1a
    case verbosity = 0x1b
    case touch = 0x1c
    case getAndTouch = 0x1d
    case getAndTouchQuiet = 0x1e
    case hello = 0x1f
    case saslListMechanisms = 0x20
    case saslAuth = 0x21
    case saslStep = 0x22
    /// memcached's (GATK), not Couchbase's: `getAndTouch` that also returns the key.
    case getAndTouchKey = 0x23
    case getAndTouchKeyQuiet = 0x24

    // TAP, the older change protocol: a connect request, then requests of the server.
    case tapConnect = 0x40
    case tapMutation = 0x41
    case tapDelete = 0x42
    case tapFlush = 0x43
    case tapOpaque = 0x44
    case tapVBucketSet = 0x45
    case tapCheckpointStart = 0x46
    case tapCheckpointEnd = 0x47

    case getAllVBucketSeqnos = 0x48
    case getEx = 0x49
    case getExReplica = 0x4a

    case dcpOpen = 0x50
    case dcpAddStream = 0x51
    case dcpCloseStream = 0x52
    case dcpStreamRequest = 0x53
    case dcpGetFailoverLog = 0x54
    case dcpStreamEnd = 0x55
    case dcpSnapshotMarker = 0x56
    case dcpMutation = 0x57
    case dcpDeletion = 0x58
    case dcpExpiration = 0x59
    case dcpFlush = 0x5a
    case dcpSetVBucketState = 0x5b
    case dcpNoop = 0x5c
    case dcpBufferAcknowledgement = 0x5d
    case dcpControl = 0x5e
    case dcpSystemEvent = 0x5f
    case dcpPrepare = 0x60
    case dcpSeqnoAcknowledged = 0x61
    case dcpCommit = 0x62
    case dcpAbort = 0x63
    case dcpSeqnoAdvanced = 0x64
    case dcpOSOSnapshot = 0x65

    case getReplica = 0x83
    case selectBucket = 0x89
    case observeSeqno = 0x91
    case observe = 0x92
    case getLocked = 0x94
    case unlock = 0x95
    case getFailoverLog = 0x96
    case getMeta = 0xa0
    case getMetaQuiet = 0xa1
    case setWithMeta = 0xa2
    case setWithMetaQuiet = 0xa3
    case addWithMeta = 0xa4
    case addWithMetaQuiet = 0xa5
    case deleteWithMeta = 0xa8
    case deleteWithMetaQuiet = 0xa9
    case getClusterConfig = 0xb5
    case getRandomKey = 0xb6
    case collectionsSetManifest = 0xb9
    case collectionsGetManifest = 0xba
    case getCollectionID = 0xbb
    case getScopeID = 0xbc

    case subdocGet = 0xc5
    case subdocExists = 0xc6
    case subdocDictionaryAdd = 0xc7
    case subdocDictionaryUpsert = 0xc8
    case subdocDelete = 0xc9
    case subdocReplace = 0xca
    case subdocArrayPushLast = 0xcb
    case subdocArrayPushFirst = 0xcc
    case subdocArrayInsert = 0xcd
    case subdocArrayAddUnique = 0xce
    case subdocCounter = 0xcf
    case subdocMultiLookup = 0xd0
    case subdocMultiMutation = 0xd1
    case subdocGetCount = 0xd2
    case subdocReplaceBodyWithXattr = 0xd3
    case rangeScanCreate = 0xda
    case rangeScanContinue = 0xdb
    case rangeScanCancel = 0xdc

    // Between nodes, in addition to DCP's; numbers that no client sends (`NodeStreamMessage`).
    case nodeOpenChannel = 0xf0
    case nodeStreamRequest = 0xf1
    case nodeCloseStream = 0xf2
    case nodeAcknowledgement = 0xf3
    case nodeOutstanding = 0xf4
    case nodePurge = 0xf5
    case getErrorMap = 0xfe
}

extension Opcode {
    /// The form of the command that always gets a response; the command itself if it is not quiet.
    @inlinable
    package var loud: Opcode {
        switch self {
        case .getQuiet: .get
        case .getKeyQuiet: .getKey
        case .setQuiet: .set
        case .addQuiet: .add
        case .replaceQuiet: .replace
        case .deleteQuiet: .delete
        case .incrementQuiet: .increment
        case .decrementQuiet: .decrement
        case .quitQuiet: .quit
        case .flushQuiet: .flush
        case .appendQuiet: .append
        case .prependQuiet: .prepend
        case .getAndTouchQuiet: .getAndTouch
        case .getAndTouchKeyQuiet: .getAndTouchKey
        case .getMetaQuiet: .getMeta
        case .setWithMetaQuiet: .setWithMeta
        case .addWithMetaQuiet: .addWithMeta
        case .deleteWithMetaQuiet: .deleteWithMeta
        default: self
        }
    }

    /// Gets a response only on a hit (reads) or on an error (writes).
    @inlinable package var isQuiet: Bool { loud != self }

    /// Changes a document, so it needs an active vBucket and may require durability.
    ///
    /// A lock is no mutation: it changes no document, though it assigns a new CAS.
    @inlinable
    package var isMutation: Bool {
        switch loud {
        case .set, .add, .replace, .delete, .increment, .decrement, .append, .prepend, .touch,
            .getAndTouch, .getAndTouchKey, .setWithMeta, .addWithMeta, .deleteWithMeta,
            .subdocDictionaryAdd, .subdocDictionaryUpsert, .subdocDelete, .subdocReplace,
            .subdocArrayPushLast, .subdocArrayPushFirst, .subdocArrayInsert,
            .subdocArrayAddUnique, .subdocCounter, .subdocMultiMutation,
            .subdocReplaceBodyWithXattr:
            true
        default: false
        }
    }

    /// For logs.
    package var name: String { "\(self)" }
}
