internal import Bytes
internal import Vocabulary

/// The state as bytes for the disk: a name, a schema number, the fields, a checksum over it all.
///
/// A newer schema is told apart from damage, because the operator's answer to the two differs.
extension ClusterState {
    private static let mark = Array("DIVANCLU".utf8)
    private static let schema: UInt16 = 2

    package enum Decoded: Sendable {
        case state(ClusterState)
        case newerSchema(UInt16)
        case damaged
    }

    package func encoded() -> [UInt8] {
        let writer = ByteWriter(capacity: 4_096)
        writer.append(Self.mark)
        writer.append(bigEndian: Self.schema)
        LEB128.append(index, to: writer)
        LEB128.append(revEpoch, to: writer)
        LEB128.append(rev, to: writer)
        writer.append(counted: uuid ?? "")
        writer.append(counted: name)
        writer.append(UInt8(administrator == nil ? 0 : 1))
        if let administrator {
            writer.append(counted: administrator.name)
            writer.append(counted: administrator.credentials)
        }
        LEB128.append(memoryQuota, to: writer)
        LEB128.append(UInt64(settings.fragmentationPercent), to: writer)
        LEB128.append(UInt64(settings.purgeIntervalHours), to: writer)
        LEB128.append(UInt64(settings.maxBucketCount), to: writer)
        LEB128.append(UInt64(nodes.count), to: writer)
        for node in nodes { node.append(to: writer) }
        LEB128.append(UInt64(buckets.count), to: writer)
        for bucket in buckets { bucket.append(to: writer) }
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
        guard let state = read(&reader, schema), reader.isAtEnd else { return .damaged }
        return .state(state)
    }

    private static func read(_ reader: inout ByteReader, _ schema: UInt16) -> ClusterState? {
        guard let index = reader.leb128(), let revEpoch = reader.leb128(),
            let rev = reader.leb128(), let uuid = reader.text(), let name = reader.text(),
            let hasAdministrator = reader.bigEndian(UInt8.self)
        else { return nil }
        var state = ClusterState(memoryQuota: 0)
        state.index = index
        state.revEpoch = revEpoch
        state.rev = rev
        state.uuid = uuid.isEmpty ? nil : uuid
        state.name = name
        if hasAdministrator == 1 {
            guard let user = reader.text(), let credentials = reader.counted() else { return nil }
            state.administrator = Administrator(name: user, credentials: credentials)
        }
        guard let quota = reader.leb128(), let percent = reader.leb128(UInt16.self),
            let hours = reader.leb128(UInt32.self), let buckets = reader.leb128(UInt32.self),
            let nodeCount = reader.leb128(UInt32.self)
        else { return nil }
        state.memoryQuota = quota
        state.settings.fragmentationPercent = percent
        state.settings.purgeIntervalHours = hours
        state.settings.maxBucketCount = buckets
        for _ in 0..<nodeCount {
            guard let node = NodeRecord(&reader) else { return nil }
            state.nodes.append(node)
        }
        guard let bucketCount = reader.leb128(UInt32.self) else { return nil }
        for _ in 0..<bucketCount {
            guard let bucket = BucketRecord(&reader, schema) else { return nil }
            state.buckets.append(bucket)
        }
        return state
    }
}

extension NodeRecord {
    fileprivate func append(to writer: ByteWriter) {
        LEB128.append(UInt64(number), to: writer)
        writer.append(counted: uuid)
        writer.append(counted: host)
        for port in [ports.admin, ports.data, ports.adminTLS, ports.dataTLS] {
            writer.append(bigEndian: port)
        }
    }

    fileprivate init?(_ reader: inout ByteReader) {
        guard let number = reader.leb128(UInt16.self), let uuid = reader.text(),
            let host = reader.text(), let admin = reader.bigEndian(UInt16.self),
            let data = reader.bigEndian(UInt16.self),
            let adminTLS = reader.bigEndian(UInt16.self),
            let dataTLS = reader.bigEndian(UInt16.self)
        else { return nil }
        let ports = NodePorts(admin: admin, data: data, adminTLS: adminTLS, dataTLS: dataTLS)
        self.init(number: number, uuid: uuid, host: host, ports: ports)
    }
}

extension BucketRecord {
    fileprivate func append(to writer: ByteWriter) {
        for text in [
            settings.name, settings.uuid, settings.type.rawValue, settings.evictionPolicy.rawValue,
            options.compressionMode.rawValue,
        ] {
            writer.append(counted: text)
        }
        for number in [
            settings.quota, UInt64(settings.replicas), UInt64(settings.vBuckets),
            UInt64(settings.maxTTL), settings.flushEnabled ? 1 : 0, settings.passwordless ? 1 : 0,
            rev, UInt64(servers.count),
        ] {
            LEB128.append(number, to: writer)
        }
        for server in servers { LEB128.append(UInt64(server), to: writer) }
        LEB128.append(UInt64(rows.copies), to: writer)
        writer.append(counted: rows.columns)
    }

    /// Schema 1 also kept a storage backend, a conflict resolution, a replica index and a
    /// compression mode `active`, none of which was ever acted on.
    fileprivate init?(_ reader: inout ByteReader, _ schema: UInt16) {
        guard let name = reader.text(), let uuid = reader.text(),
            let type = reader.text().flatMap(BucketType.init(rawValue:)),
            let eviction = reader.text().flatMap(EvictionPolicy.init(rawValue:)),
            schema >= 2 || reader.text() != nil,
            let compression = reader.text(),
            schema >= 2 || reader.text() != nil,
            let quota = reader.leb128(), let replicas = reader.leb128(UInt8.self),
            let vBuckets = reader.leb128(UInt16.self), let maxTTL = reader.leb128(UInt32.self),
            let flush = reader.leb128(), let passwordless = reader.leb128(),
            schema >= 2 || reader.leb128() != nil, let rev = reader.leb128(),
            let serverCount = reader.leb128(UInt16.self)
        else { return nil }
        var settings = BucketSettings(name: name, uuid: uuid, quota: quota)
        settings.type = type
        settings.evictionPolicy = eviction
        settings.replicas = Int(replicas)
        settings.vBuckets = Int(vBuckets)
        settings.maxTTL = maxTTL
        settings.flushEnabled = flush == 1
        settings.passwordless = passwordless == 1
        var options = BucketOptions()
        if let mode = BucketOptions.CompressionMode(rawValue: compression) {
            options.compressionMode = mode
        } else if schema >= 2 {
            return nil
        }
        var servers: [UInt16] = []
        for _ in 0..<serverCount {
            guard let server = reader.leb128(UInt16.self) else { return nil }
            servers.append(server)
        }
        guard let copies = reader.leb128(UInt8.self), let columns = reader.counted(),
            let rows = VBucketRows(copies: Int(copies), columns: columns)
        else { return nil }
        self.init(settings: settings, options: options, servers: servers, rows: rows)
        self.rev = rev
    }
}

extension ByteWriter {
    fileprivate func append(counted text: String) {
        append(counted: Array(text.utf8))
    }

    fileprivate func append(counted bytes: [UInt8]) {
        LEB128.append(UInt64(bytes.count), to: self)
        append(bytes)
    }
}

extension ByteReader {
    fileprivate mutating func leb128<Integer: FixedWidthInteger>(_ type: Integer.Type) -> Integer? {
        leb128().flatMap { Integer(exactly: $0) }
    }

    fileprivate mutating func counted() -> [UInt8]? {
        guard let count = leb128(Int.self) else { return nil }
        return bytes(count)?.bytes
    }

    fileprivate mutating func text() -> String? {
        counted().map { String(decoding: $0, as: UTF8.self) }
    }
}
