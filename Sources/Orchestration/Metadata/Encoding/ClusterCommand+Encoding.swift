package import Bytes
internal import Vocabulary

/// Encodes envelopes as log entries: proposer, boot and number, login, kind of command, its fields.
///
/// - Decoding fails unless it consumes every byte. Fields that a release does not know are
///   not skipped here: nodes that skipped them would make another state of the same log. So a new
///   command, and a new field of a command, is proposed only from its feature level on.
extension ClusterEnvelope {
    package func encoded() -> [UInt8] {
        let writer = ByteWriter(capacity: 512)
        append(to: writer)
        return writer.bytes
    }

    package func append(to writer: ByteWriter) {
        writer.append(number: proposer.value)
        writer.append(bigEndian: boot)
        writer.append(number: number)
        writer.append(counted: login ?? "")
        command.append(to: writer)
    }

    package static func decode(_ bytes: [UInt8]) -> ClusterEnvelope? {
        bytes.withUnsafeBytes { decode(ByteView($0)) }
    }

    /// Decodes an entry; nil unless the bytes are exactly one envelope.
    package static func decode(_ view: ByteView) -> ClusterEnvelope? {
        var reader = ByteReader(view)
        guard let proposer = reader.number(UInt16.self),
            let boot = reader.bigEndian(UInt64.self), let number = reader.leb128(),
            let login = reader.text(), let command = ClusterCommand(&reader), reader.isAtEnd
        else { return nil }
        return ClusterEnvelope(
            proposer: NodeNumber(proposer),
            boot: boot,
            number: number,
            login: login,
            command: command
        )
    }
}

/// Numbers of the kinds; stored in logs, so they must never change.
private enum Kind: UInt8 {
    case initialise = 1
    case setAdministrator = 2
    case setName = 3
    case setMemoryQuota = 4
    case setSettings = 5
    case resetAutoFailoverCount = 6
    case newEpoch = 7
    case raiseFeatureLevel = 8
    case setIndexing = 9
    case putUser = 10
    case deleteUser = 11
    case changePassword = 12
    case renewSecret = 13
    case addNode = 16
    case setNode = 17
    case setNodeState = 18
    case removeNode = 19
    case setGroups = 20
    case setAlternate = 21
    case createBucket = 32
    case changeBucket = 33
    case deleteBucket = 34
    case flushBucket = 35
    case putDesignDocument = 36
    case deleteDesignDocument = 37
    case deleteDesignDocumentRevision = 38
    case startRebalance = 48
    case setTargets = 49
    case endRebalance = 50
    case markRebalance = 51
    case dropRetry = 52
    case joint = 64
    case final = 65
    case takeOver = 66
    case promote = 67
    case confirm = 68
    case resume = 69
    case release = 70
    case recreate = 71
    case failOver = 72
}

extension ClusterCommand {
    private var kind: Kind {
        switch self {
        case .initialise: .initialise
        case .setAdministrator: .setAdministrator
        case .setName: .setName
        case .setMemoryQuota: .setMemoryQuota
        case .setSettings: .setSettings
        case .setIndexing: .setIndexing
        case .resetAutoFailoverCount: .resetAutoFailoverCount
        case .newEpoch: .newEpoch
        case .raiseFeatureLevel: .raiseFeatureLevel
        case .putUser: .putUser
        case .deleteUser: .deleteUser
        case .changePassword: .changePassword
        case .renewSecret: .renewSecret
        case .addNode: .addNode
        case .setNode: .setNode
        case .setAlternate: .setAlternate
        case .setNodeState: .setNodeState
        case .removeNode: .removeNode
        case .setGroups: .setGroups
        case .createBucket: .createBucket
        case .changeBucket: .changeBucket
        case .deleteBucket: .deleteBucket
        case .flushBucket: .flushBucket
        case .putDesignDocument: .putDesignDocument
        case .deleteDesignDocument(let removal):
            removal.was == nil ? .deleteDesignDocument : .deleteDesignDocumentRevision
        case .startRebalance: .startRebalance
        case .setTargets: .setTargets
        case .endRebalance: .endRebalance
        case .dropRetry: .dropRetry
        case .markRebalance: .markRebalance
        case .joint: .joint
        case .final: .final
        case .takeOver: .takeOver
        case .promote: .promote
        case .confirm: .confirm
        case .resume: .resume
        case .release: .release
        case .recreate: .recreate
        case .failOver: .failOver
        }
    }

    func append(to writer: ByteWriter) {
        writer.append(kind.rawValue)
        switch self {
        case .initialise(let birth): birth.append(to: writer)
        case .setAdministrator(let administrator): administrator.append(to: writer)
        case .setName(let name): writer.append(counted: name)
        case .setMemoryQuota(let quota): writer.append(number: quota)
        case .setSettings(let settings, let was):
            settings.append(to: writer)
            writer.append(flag: was != nil)
            was?.append(to: writer)
        case .setIndexing(let change): change.append(to: writer)
        case .resetAutoFailoverCount: break
        case .newEpoch(let epoch): epoch.append(to: writer)
        case .raiseFeatureLevel(let level): writer.append(level: level)
        case .putUser(let change): change.append(to: writer)
        case .deleteUser(let id): writer.append(counted: id)
        case .changePassword(let change): change.append(to: writer)
        case .renewSecret(let secret): secret.append(to: writer)
        case .addNode(let node): node.append(to: writer)
        case .setNode(let address): address.append(to: writer)
        case .setAlternate(let change): change.append(to: writer)
        case .setNodeState(let change): change.append(to: writer)
        case .removeNode(let number): writer.append(node: number)
        case .setGroups(let layout): layout.append(to: writer)
        case .createBucket(let bucket): bucket.append(to: writer)
        case .changeBucket(let change): change.append(to: writer)
        case .deleteBucket(let step), .flushBucket(let step): step.append(to: writer)
        case .putDesignDocument(let change): change.append(to: writer)
        case .deleteDesignDocument(let removal): removal.append(to: writer)
        case .startRebalance(let record): record.append(to: writer)
        case .setTargets(let change):
            writer.append(counted: change.bucket)
            change.targets.append(to: writer)
        case .endRebalance(let outcome): outcome.append(to: writer)
        case .dropRetry(let id): writer.append(counted: id)
        case .markRebalance(let step): step.append(to: writer)
        case .joint(let steps), .final(let steps), .takeOver(let steps), .promote(let steps),
            .confirm(let steps), .resume(let steps), .release(let steps), .recreate(let steps):
            steps.append(to: writer)
        case .failOver(let step):
            writer.append(nodes: step.nodes)
            writer.append(step.flags)
        }
    }

    init?(_ reader: inout ByteReader) {
        guard let kind = reader.byte().flatMap(Kind.init(rawValue:)),
            let command = Self.read(kind, &reader)
        else { return nil }
        self = command
    }

    private static func read(_ kind: Kind, _ reader: inout ByteReader) -> ClusterCommand? {
        switch kind {
        case .initialise: Initialisation(&reader).map { .initialise($0) }
        case .setAdministrator: Administrator(&reader).map { .setAdministrator($0) }
        case .setName: reader.text().map { .setName($0) }
        case .setMemoryQuota: reader.leb128().map { .setMemoryQuota($0) }
        case .setSettings: readSettings(&reader)
        case .setIndexing: IndexingChange(&reader).map { .setIndexing($0) }
        case .resetAutoFailoverCount: .resetAutoFailoverCount
        case .newEpoch: NewEpoch(&reader).map { .newEpoch($0) }
        case .raiseFeatureLevel: reader.level().map { .raiseFeatureLevel($0) }
        case .putUser: UserChange(&reader).map { .putUser($0) }
        case .deleteUser: reader.text().map { .deleteUser(id: $0) }
        case .changePassword: PasswordChange(&reader).map { .changePassword($0) }
        case .renewSecret: SharedSecret(&reader).map { .renewSecret($0) }
        case .addNode: NewNode(&reader).map { .addNode($0) }
        case .setNode: NodeAddress(&reader).map { .setNode($0) }
        case .setAlternate: AlternateChange(&reader).map { .setAlternate($0) }
        case .setNodeState: NodeStateChange(&reader).map { .setNodeState($0) }
        case .removeNode: reader.node().map { .removeNode($0) }
        case .setGroups: GroupLayout(&reader).map { .setGroups($0) }
        case .createBucket: NewBucket(&reader).map { .createBucket($0) }
        case .changeBucket: BucketChange(&reader).map { .changeBucket($0) }
        case .deleteBucket: BucketStep(&reader).map { .deleteBucket($0) }
        case .flushBucket: BucketStep(&reader).map { .flushBucket($0) }
        case .putDesignDocument: DesignDocumentChange(&reader).map { .putDesignDocument($0) }
        case .deleteDesignDocument: DesignDocumentRemoval(&reader).map { .deleteDesignDocument($0) }
        case .deleteDesignDocumentRevision:
            DesignDocumentRemoval(based: &reader).map { .deleteDesignDocument($0) }
        case .startRebalance: RebalanceRecord(&reader).map { .startRebalance($0) }
        case .setTargets: TargetChange(&reader).map { .setTargets($0) }
        case .endRebalance: RebalanceOutcome(&reader).map { .endRebalance($0) }
        case .dropRetry: reader.text().map { .dropRetry(id: $0) }
        case .markRebalance: ProgressStep(&reader).map { .markRebalance($0) }
        case .joint: VBucketSteps(&reader).map { .joint($0) }
        case .final: VBucketSteps(&reader).map { .final($0) }
        case .takeOver: VBucketSteps(&reader).map { .takeOver($0) }
        case .promote: VBucketSteps(&reader).map { .promote($0) }
        case .confirm: VBucketSteps(&reader).map { .confirm($0) }
        case .resume: VBucketSteps(&reader).map { .resume($0) }
        case .release: VBucketSteps(&reader).map { .release($0) }
        case .recreate: VBucketSteps(&reader).map { .recreate($0) }
        case .failOver: FailoverStep(&reader).map { .failOver($0) }
        }
    }

    /// The settings that the change is based on are optional.
    private static func readSettings(_ reader: inout ByteReader) -> ClusterCommand? {
        guard let settings = ClusterSettings(&reader), let hasBasis = reader.flag() else {
            return nil
        }
        guard hasBasis else { return .setSettings(settings) }
        return ClusterSettings(&reader).map { .setSettings(settings, was: $0) }
    }
}
