internal import Bytes
internal import Vocabulary

/// Encodes the state for snapshots and files: a magic number, a schema number, the fields, and a
/// checksum of all of these.
///
/// A newer schema is distinguished from damage, because they need different actions of the
/// operator.
extension ClusterState {
    private static let mark = Array("DIVANCLU".utf8)
    /// The newest schema that this release reads.
    private static let schema: UInt16 = 9

    /// The schema in which this state is written: no member may have to read a newer one than it
    /// knows.
    private var schemaWritten: UInt16 {
        if featureLevel < .designDocuments { return 7 }
        return featureLevel < .localUsers ? 8 : 9
    }

    /// The result of decoding a stored state.
    package enum Decoded: Sendable {
        case state(ClusterState)
        case newerSchema(UInt16)
        case damaged
    }

    package func encoded() -> [UInt8] {
        let writer = ByteWriter(capacity: 4_096)
        writer.append(Self.mark)
        writer.append(bigEndian: schemaWritten)
        writer.append(number: index)
        writer.append(number: revEpoch)
        writer.append(number: rev)
        writer.append(bigEndian: groupID)
        writer.append(counted: uuid ?? "")
        writer.append(counted: name)
        writer.append(flag: administrator != nil)
        administrator?.append(to: writer)
        writer.append(number: memoryQuota)
        settings.append(to: writer)
        writer.append(number: autoFailoverCount)
        writer.append(number: nextNodeNumber.value)
        writer.append(list: nodes) { $0.append(to: $1) }
        writer.append(list: groups) { $0.append(to: $1) }
        writer.append(list: buckets) { $0.append(to: $1) }
        writer.append(list: deletedBuckets) { bucket, writer in
            writer.append(counted: bucket.name)
            writer.append(counted: bucket.uuid)
        }
        writer.append(flag: rebalance != nil)
        rebalance?.append(to: writer)
        writer.append(flag: lastRebalance != nil)
        lastRebalance?.append(to: writer)
        writer.append(list: proposals.rows) { $0.append(to: $1) }
        writer.append(list: pastGroups) { $1.append(bigEndian: $0) }
        writer.append(list: counters.counts) { $1.append(number: $0) }
        writer.append(list: nodes.filter { $0.alternate != nil }) { node, writer in
            AlternateChange(number: node.number, address: node.alternate).append(to: writer)
        }
        settings.retry.append(to: writer)
        writer.append(flag: retry != nil)
        retry?.append(to: writer)
        writer.append(list: nodes) { $1.append(number: $0.memoryTotal) }
        writer.append(level: featureLevel)
        writer.append(list: nodes) { $1.append(level: $0.level) }
        if schemaWritten > 7 {
            for bucket in buckets { bucket.appendDesigns(to: writer) }
            for node in nodes { writer.append(bigEndian: node.ports.views) }
            indexing.append(to: writer)
        }
        if schemaWritten > 8 { writer.append(list: users) { $0.append(to: $1) } }
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
        guard schema <= Self.schema else { return .newerSchema(schema) }
        guard reader.rest.count >= 4 else { return .damaged }
        let checked = view.slice(0, view.count - 4)
        guard view.bigEndian(at: checked.count, as: UInt32.self) == CRC32.checksum(checked) else {
            return .damaged
        }
        reader = ByteReader(checked.dropFirst(mark.count + 2))
        let state = schema < 3 ? readSchemaTwo(&reader, schema) : read(&reader, schema)
        guard let state, reader.isAtEnd else { return .damaged }
        return .state(state)
    }

    private static func read(_ reader: inout ByteReader, _ schema: UInt16) -> ClusterState? {
        var state = ClusterState(memoryQuota: 0)
        guard state.readRevisions(&reader), let groupID = reader.bigEndian(UInt64.self),
            let uuid = reader.text(), let name = reader.text(),
            let hasAdministrator = reader.flag()
        else { return nil }
        state.groupID = groupID
        state.uuid = uuid.isEmpty ? nil : uuid
        state.name = name
        if hasAdministrator {
            guard let administrator = Administrator(&reader) else { return nil }
            state.administrator = administrator
        }
        guard let quota = reader.leb128(), let settings = ClusterSettings(&reader),
            let count = reader.number(UInt16.self), let next = reader.node(),
            let nodes = reader.list({ NodeRecord(&$0) }),
            let groups = reader.list({ ServerGroup(&$0) }),
            let buckets = reader.list({ BucketRecord(&$0) }),
            let deleted = reader.list({ DeletedBucket(&$0) })
        else { return nil }
        state.memoryQuota = quota
        state.settings = settings
        state.autoFailoverCount = count
        state.nextNodeNumber = next
        state.nodes = nodes
        state.groups = groups
        state.buckets = buckets
        state.deletedBuckets = deleted
        guard state.readRebalance(&reader) else { return nil }
        guard schema > 3 else { return state }
        guard let past = reader.list({ $0.bigEndian(UInt64.self) }) else { return nil }
        state.pastGroups = past
        guard schema > 4 else { return state }
        guard let counts = reader.list({ $0.leb128() }),
            let alternates = reader.list({ AlternateChange(&$0) })
        else { return nil }
        state.counters = ClusterCounters(counts: counts)
        for change in alternates {
            guard let place = state.place(ofNode: change.number) else { return nil }
            state.nodes[place].alternate = change.address
        }
        guard let retry = RetrySettings(&reader), let isToBeTried = reader.flag() else {
            return nil
        }
        state.settings.retry = retry
        if isToBeTried {
            guard let retry = RebalanceRetry(&reader) else { return nil }
            state.retry = retry
        }
        guard schema > 5 else { return state }
        guard state.readMemory(&reader) else { return nil }
        guard schema > 6 else { return state }
        guard state.readLevels(&reader) else { return nil }
        guard schema > 7 else { return state }
        guard state.readDesigns(&reader), state.readViewsPorts(&reader),
            let indexing = IndexingSettings(&reader)
        else { return nil }
        state.indexing = indexing
        return schema < 9 || state.readUsers(&reader) ? state : nil
    }

    private mutating func readDesigns(_ reader: inout ByteReader) -> Bool {
        for place in buckets.indices {
            guard buckets[place].readDesigns(&reader) else { return false }
        }
        return true
    }

    private mutating func readViewsPorts(_ reader: inout ByteReader) -> Bool {
        for place in nodes.indices {
            guard let port = reader.bigEndian(UInt16.self) else { return false }
            nodes[place].ports.views = port
        }
        return true
    }

    private mutating func readUsers(_ reader: inout ByteReader) -> Bool {
        guard let users = reader.list({ LocalUser(&$0) }) else { return false }
        self.users = users
        return true
    }

    private mutating func readMemory(_ reader: inout ByteReader) -> Bool {
        guard let totals = reader.list({ $0.leb128() }), totals.count == nodes.count else {
            return false
        }
        for (place, total) in totals.enumerated() { nodes[place].memoryTotal = total }
        return true
    }

    private mutating func readLevels(_ reader: inout ByteReader) -> Bool {
        guard let agreed = reader.level(), let levels = reader.list({ $0.level() }),
            levels.count == nodes.count
        else { return false }
        featureLevel = agreed
        for (place, level) in levels.enumerated() { nodes[place].level = level }
        return true
    }

    private mutating func readRevisions(_ reader: inout ByteReader) -> Bool {
        guard let index = reader.leb128(), let revEpoch = reader.leb128(),
            let rev = reader.leb128()
        else { return false }
        self.index = index
        self.revEpoch = revEpoch
        self.rev = rev
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
        guard let rows = reader.list({ ProposalTable.Row(&$0) }) else { return false }
        proposals.rows = rows
        return true
    }

    private static func readSchemaTwo(
        _ reader: inout ByteReader,
        _ schema: UInt16
    ) -> ClusterState? {
        var state = ClusterState(memoryQuota: 0)
        guard state.readRevisions(&reader), let uuid = reader.text(), let name = reader.text(),
            let hasAdministrator = reader.flag()
        else { return nil }
        state.uuid = uuid.isEmpty ? nil : uuid
        state.name = name
        if hasAdministrator {
            guard let administrator = Administrator(&reader) else { return nil }
            state.administrator = administrator
        }
        guard let quota = reader.leb128(), let settings = ClusterSettings(schemaTwo: &reader),
            let nodes = reader.list({ NodeRecord(schemaTwo: &$0) }),
            let buckets = reader.list({ BucketRecord(schemaTwo: &$0, schema) })
        else { return nil }
        state.memoryQuota = quota
        state.settings = settings
        state.nodes = nodes
        state.nextNodeNumber = NodeNumber((nodes.map(\.number.value).max() ?? 0) + 1)
        state.buckets = buckets
        return state
    }
}

extension DeletedBucket {
    init?(_ reader: inout ByteReader) {
        guard let name = reader.text(), let uuid = reader.text() else { return nil }
        self.init(name: name, uuid: uuid)
    }
}
