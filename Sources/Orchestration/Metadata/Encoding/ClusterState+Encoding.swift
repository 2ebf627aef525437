internal import Bytes
internal import Vocabulary

/// Encodes the state for snapshots: a magic number, a schema number, the fields, and a checksum of all
/// of these.
///
/// Another schema is distinguished from damage, because they need different actions of the operator.
extension ClusterState {
    private static let mark = Array("DIVANCLU".utf8)
    /// The schema that this release writes and reads.
    package static let schema: UInt16 = 1

    /// The result of decoding a stored state.
    package enum Decoded: Sendable {
        case state(ClusterState)
        case otherSchema(UInt16)
        case damaged
    }

    package func encoded() -> [UInt8] {
        let writer = ByteWriter(capacity: 4_096)
        writer.append(Self.mark)
        writer.append(bigEndian: Self.schema)
        writer.append(number: index)
        writer.append(number: revEpoch)
        writer.append(counted: epochLogin ?? "")
        writer.append(number: rev)
        writer.append(bigEndian: groupID)
        writer.append(list: pastGroups) { $1.append(bigEndian: $0) }
        writer.append(counted: uuid ?? "")
        writer.append(counted: name)
        writer.append(level: featureLevel)
        writer.append(flag: administrator != nil)
        administrator?.append(to: writer)
        writer.append(list: users) { $0.append(to: $1) }
        writer.append(number: memoryQuota)
        settings.append(to: writer)
        indexing.append(to: writer)
        writer.append(number: autoFailoverCount)
        writer.append(number: nextNodeNumber.value)
        writer.append(list: nodes) { $0.append(to: $1) }
        writer.append(list: groups) { $0.append(to: $1) }
        secret.append(to: writer)
        writer.append(list: buckets) { $0.append(to: $1) }
        writer.append(list: deletedBuckets) { bucket, writer in
            writer.append(counted: bucket.name)
            writer.append(counted: bucket.uuid)
        }
        writer.append(flag: rebalance != nil)
        rebalance?.append(to: writer)
        writer.append(flag: lastRebalance != nil)
        lastRebalance?.append(to: writer)
        writer.append(flag: retry != nil)
        retry?.append(to: writer)
        writer.append(list: proposals.rows) { $0.append(to: $1) }
        writer.append(list: counters.counts) { $1.append(number: $0) }
        writer.append(bigEndian: CRC32.checksum(writer.view))
        return writer.bytes
    }

    package static func decode(_ bytes: [UInt8]) -> Decoded {
        bytes.withUnsafeBytes { decode(ByteView($0)) }
    }

    private static func decode(_ view: ByteView) -> Decoded {
        var reader = ByteReader(view)
        guard let found = reader.bytes(mark.count)?.bytes, found == mark,
            let schema = reader.bigEndian(UInt16.self)
        else { return .damaged }
        guard schema == Self.schema else { return .otherSchema(schema) }
        guard reader.rest.count >= 4 else { return .damaged }
        let checked = view.slice(0, view.count - 4)
        guard view.bigEndian(at: checked.count, as: UInt32.self) == CRC32.checksum(checked) else {
            return .damaged
        }
        reader = ByteReader(checked.dropFirst(mark.count + 2))
        var state = ClusterState(memoryQuota: 0)
        guard state.readIdentity(&reader), state.readAccess(&reader), state.readNodes(&reader),
            state.readBuckets(&reader), state.readRebalance(&reader), reader.isAtEnd
        else { return .damaged }
        return .state(state)
    }

    private mutating func readIdentity(_ reader: inout ByteReader) -> Bool {
        guard let index = reader.leb128(), let revEpoch = reader.leb128(),
            let login = reader.text(), let rev = reader.leb128(),
            let groupID = reader.bigEndian(UInt64.self),
            let pastGroups = reader.list({ $0.bigEndian(UInt64.self) }),
            let uuid = reader.text(), let name = reader.text(), let level = reader.level()
        else { return false }
        (self.index, self.revEpoch, self.rev) = (index, revEpoch, rev)
        epochLogin = login.isEmpty ? nil : login
        (self.groupID, self.pastGroups) = (groupID, pastGroups)
        self.uuid = uuid.isEmpty ? nil : uuid
        self.name = name
        featureLevel = level
        return true
    }

    private mutating func readAccess(_ reader: inout ByteReader) -> Bool {
        guard let hasAdministrator = reader.flag() else { return false }
        if hasAdministrator {
            guard let administrator = Administrator(&reader) else { return false }
            self.administrator = administrator
        }
        guard let users = reader.list({ LocalUser(&$0) }) else { return false }
        self.users = users
        return true
    }

    private mutating func readNodes(_ reader: inout ByteReader) -> Bool {
        guard let quota = reader.leb128(), let settings = ClusterSettings(&reader),
            let indexing = IndexingSettings(&reader), let count = reader.number(UInt16.self),
            let next = reader.node(), let nodes = reader.list({ NodeRecord(&$0) }),
            let groups = reader.list({ ServerGroup(&$0) }), let secret = SharedSecret(&reader)
        else { return false }
        memoryQuota = quota
        self.settings = settings
        self.indexing = indexing
        autoFailoverCount = count
        nextNodeNumber = next
        self.nodes = nodes
        self.groups = groups
        self.secret = secret
        return true
    }

    private mutating func readBuckets(_ reader: inout ByteReader) -> Bool {
        guard let buckets = reader.list({ BucketRecord(&$0) }),
            let deleted = reader.list({ DeletedBucket(&$0) })
        else { return false }
        self.buckets = buckets
        deletedBuckets = deleted
        return true
    }

    private mutating func readRebalance(_ reader: inout ByteReader) -> Bool {
        guard let isRunning = reader.flag() else { return false }
        if isRunning {
            guard let record = RebalanceRecord(&reader) else { return false }
            rebalance = record
        }
        guard let hasLast = reader.flag() else { return false }
        if hasLast {
            guard let outcome = RebalanceOutcome(&reader) else { return false }
            lastRebalance = outcome
        }
        guard let isToBeTried = reader.flag() else { return false }
        if isToBeTried {
            guard let retry = RebalanceRetry(&reader) else { return false }
            self.retry = retry
        }
        guard let rows = reader.list({ ProposalTable.Row(&$0) }),
            let counts = reader.list({ $0.leb128() })
        else { return false }
        proposals.rows = rows
        counters = ClusterCounters(counts: counts)
        return true
    }
}

extension DeletedBucket {
    init?(_ reader: inout ByteReader) {
        guard let name = reader.text(), let uuid = reader.text() else { return nil }
        self.init(name: name, uuid: uuid)
    }
}
