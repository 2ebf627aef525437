internal import Bytes
internal import Vocabulary

extension BucketSettings {
    func append(to writer: ByteWriter) {
        for text in [name, uuid, type.rawValue, evictionPolicy.rawValue] {
            writer.append(counted: text)
        }
        writer.append(number: quota)
        writer.append(number: UInt(replicas))
        writer.append(number: UInt(vBuckets))
        writer.append(number: maxTTL)
        writer.append(flag: flushEnabled)
        let floor = minimumDurability?.rawValue ?? 0
        let hasPassword = !password.isEmpty
        let isOpen = passwordless != .none
        let isOpenToNetwork = passwordless == .network
        writer.append(
            UInt8(isOpen ? 1 : 0) | floor << 1 | (hasPassword ? 8 : 0) | (isOpenToNetwork ? 16 : 0)
        )
        if hasPassword { writer.append(counted: password) }
    }

    init?(_ reader: inout ByteReader) {
        guard let name = reader.text(), let uuid = reader.text(),
            let type = reader.text().flatMap(BucketType.init(rawValue:)),
            let eviction = reader.text().flatMap(EvictionPolicy.init(rawValue:)),
            let quota = reader.leb128(), let replicas = reader.number(UInt8.self),
            let vBuckets = reader.number(UInt16.self), let maxTTL = reader.number(UInt32.self),
            let flushEnabled = reader.flag(),
            // Bit 0: the bucket needs no password. Bits 1 and 2 are the durability level; 0 is none.
            // Bit 3: a password follows. Bit 4, with bit 0: also from the network.
            let access = reader.byte(), access < 32
        else { return nil }
        self.init(name: name, uuid: uuid, quota: quota)
        self.type = type
        self.evictionPolicy = eviction
        self.replicas = Int(replicas)
        self.vBuckets = Int(vBuckets)
        self.maxTTL = maxTTL
        self.flushEnabled = flushEnabled
        switch access & 17 {
        case 0: passwordless = .none
        case 1: passwordless = .loopback
        case 17: passwordless = .network
        default: return nil
        }
        minimumDurability = DurabilityLevel(rawValue: access >> 1 & 3)
        guard access & 8 != 0 else { return }
        guard let password = reader.counted(), !password.isEmpty else { return nil }
        self.password = Array(password)
    }
}

extension BucketOptions {
    func append(to writer: ByteWriter) {
        writer.append(counted: compressionMode.rawValue)
    }

    init?(_ reader: inout ByteReader) {
        guard let mode = reader.text().flatMap(CompressionMode.init(rawValue:)) else { return nil }
        self.init()
        compressionMode = mode
    }
}

extension BucketTargets {
    func append(to writer: ByteWriter) {
        writer.append(number: index)
        writer.append(copies)
        writer.append(list: rows) { $1.append(chain: $0) }
    }

    init?(_ reader: inout ByteReader) {
        guard let index = reader.leb128(), let copies = reader.byte(),
            let rows = reader.list({ $0.chain() })
        else { return nil }
        self.init(copies: copies, rows: rows)
        self.index = index
    }
}

extension BucketRecord {
    func append(to writer: ByteWriter) {
        settings.append(to: writer)
        options.append(to: writer)
        writer.append(number: rev)
        writer.append(number: flush ?? 0)
        writer.append(flag: targets != nil)
        if let targets { targets.append(to: writer) }
        var fence: UInt64 = 0
        writer.append(list: placements) { placement, writer in
            placement.append(to: writer, after: fence)
            fence = placement.fence
        }
        writer.append(number: designRevision)
        writer.append(list: designDocuments) { $0.append(to: $1) }
    }

    init?(_ reader: inout ByteReader) {
        guard let settings = BucketSettings(&reader), let options = BucketOptions(&reader),
            let rev = reader.leb128(), let flush = reader.leb128(), let hasTargets = reader.flag()
        else { return nil }
        var targets: BucketTargets?
        if hasTargets {
            guard let read = BucketTargets(&reader) else { return nil }
            targets = read
        }
        var fence: UInt64 = 0
        let placements = reader.list { reader -> VBucketPlacement? in
            let placement = VBucketPlacement(&reader, after: fence)
            fence = placement?.fence ?? 0
            return placement
        }
        guard let placements, placements.count == settings.vBuckets,
            targets.map({ $0.rows.count == placements.count }) ?? true,
            let designRevision = reader.leb128(),
            let designDocuments = reader.list({ DesignDocument(&$0) })
        else { return nil }
        self.init(settings: settings, options: options, placements: placements)
        self.rev = rev
        self.flush = flush == 0 ? nil : flush
        self.targets = targets
        self.designRevision = designRevision
        self.designDocuments = designDocuments
    }
}

/// About ten bytes for a vBucket that does not move; a fence is the difference to the previous
/// vBucket's.
extension VBucketPlacement {
    /// Flags of the optional fields that follow; the values are stored on disk.
    private struct Parts: OptionSet {
        let rawValue: UInt8
        static let stage = Parts(rawValue: 1)
        static let basis = Parts(rawValue: 2)
        static let next = Parts(rawValue: 4)
        static let former = Parts(rawValue: 8)
        static let expected = Parts(rawValue: 16)
        static let rowBefore = Parts(rawValue: 32)
        static let branch = Parts(rawValue: 64)
        static let all = Parts(rawValue: 127)
    }

    private var parts: Parts {
        var parts = Parts()
        if stage != fence { parts.insert(.stage) }
        if !isConfirmed { parts.insert(.basis) }
        if isJoint { parts.insert(.next) }
        if former != nil { parts.insert(.former) }
        if expected != nil { parts.insert(.expected) }
        if !rowBefore.isEmpty { parts.insert(.rowBefore) }
        if branch != fence { parts.insert(.branch) }
        return parts
    }

    func append(to writer: ByteWriter, after fenceBefore: UInt64) {
        let parts = parts
        writer.append(parts.rawValue)
        writer.append(cause.rawValue | copies << 4)
        writer.append(number: LEB128.zigzag(Int64(bitPattern: fence &- fenceBefore)))
        writer.append(number: fence &- origin)
        writer.append(chain: chain)
        if parts.contains(.stage) { writer.append(number: stage &- fence) }
        if parts.contains(.basis) { writer.append(chain: basis) }
        if parts.contains(.next) {
            writer.append(chain: next)
            writer.append(nextCopies)
        }
        if let former { writer.append(node: former) }
        if let expected { writer.append(position: expected) }
        if parts.contains(.rowBefore) { writer.append(chain: rowBefore) }
        if parts.contains(.branch) { writer.append(number: fence &- branch) }
    }

    init?(_ reader: inout ByteReader, after fenceBefore: UInt64) {
        guard let parts = reader.byte().map(Parts.init(rawValue:)), parts.isSubset(of: .all),
            let shape = reader.byte(), let cause = OwnershipCause(rawValue: shape & 15),
            let distance = reader.leb128(), let age = reader.leb128(), let chain = reader.chain()
        else { return nil }
        let fence = fenceBefore &+ UInt64(bitPattern: LEB128.unzigzag(distance))
        self.init(chain: chain, copies: shape >> 4, index: fence)
        self.cause = cause
        guard age <= fence else { return nil }
        origin = fence - age
        if parts.contains(.stage) {
            guard let distance = reader.leb128() else { return nil }
            stage = fence &+ distance
        }
        if parts.contains(.basis) {
            guard let basis = reader.chain() else { return nil }
            isConfirmed = false
            self.basis = basis
        }
        if parts.contains(.next) {
            guard let next = reader.chain(), let copies = reader.byte() else { return nil }
            self.next = next
            nextCopies = copies
        }
        if parts.contains(.former) {
            guard let former = reader.node() else { return nil }
            self.former = former
        }
        if parts.contains(.expected) {
            guard let expected = reader.position() else { return nil }
            self.expected = expected
        }
        if parts.contains(.rowBefore) {
            guard let row = reader.chain() else { return nil }
            rowBefore = row
        }
        if parts.contains(.branch) {
            guard let distance = reader.leb128(), distance <= fence else { return nil }
            branch = fence - distance
        }
    }
}
