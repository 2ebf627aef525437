internal import Bytes
internal import Vocabulary

extension Initialisation {
    func append(to writer: ByteWriter) {
        writer.append(counted: uuid)
        writer.append(bigEndian: groupID)
        administrator.append(to: writer)
        writer.append(flag: memoryQuota != nil)
        if let memoryQuota { writer.append(number: memoryQuota) }
        writer.append(flag: name != nil)
        if let name { writer.append(counted: name) }
    }

    init?(_ reader: inout ByteReader) {
        guard let uuid = reader.text(), let groupID = reader.bigEndian(UInt64.self),
            let administrator = Administrator(&reader)
        else { return nil }
        self.init(uuid: uuid, groupID: groupID, administrator: administrator)
        guard let hasQuota = reader.flag() else { return nil }
        if hasQuota {
            guard let quota = reader.leb128() else { return nil }
            memoryQuota = quota
        }
        guard let hasName = reader.flag() else { return nil }
        if hasName {
            guard let name = reader.text() else { return nil }
            self.name = name
        }
    }
}

extension NewEpoch {
    func append(to writer: ByteWriter) {
        writer.append(bigEndian: groupID)
        writer.append(bigEndian: formerGroupID)
        writer.append(nodes: survivors)
        writer.append(number: beganMilliseconds)
        writer.append(counted: login ?? "")
    }

    init?(_ reader: inout ByteReader) {
        guard let groupID = reader.bigEndian(UInt64.self),
            let former = reader.bigEndian(UInt64.self),
            let survivors = reader.list({ $0.node() }), let began = reader.leb128(),
            let login = reader.text()
        else { return nil }
        self.init(
            groupID: groupID,
            formerGroupID: former,
            survivors: survivors,
            beganMilliseconds: began
        )
        self.login = login.isEmpty ? nil : login
    }
}

extension NewNode {
    func append(to writer: ByteWriter) {
        writer.append(counted: uuid)
        writer.append(counted: host)
        ports.append(to: writer)
        writer.append(keys: keys)
        writer.append(counted: group)
        writer.append(list: services) { $1.append(counted: $0) }
        writer.append(number: namesRevision.map { UInt64($0) + 1 } ?? 0)
        writer.append(number: memoryTotal)
        writer.append(level: level)
    }

    init?(_ reader: inout ByteReader) {
        guard let uuid = reader.text(), let host = reader.text(), let ports = NodePorts(&reader),
            let keys = reader.keys(), let group = reader.text(),
            let services = reader.list({ $0.text() })
        else { return nil }
        self.init(
            uuid: uuid,
            host: host,
            ports: ports,
            keys: keys,
            group: group,
            services: services
        )
        guard let next = reader.leb128(), next <= UInt64(UInt32.max) + 1,
            let total = reader.leb128(), let level = reader.level()
        else { return nil }
        if next > 0 { namesRevision = UInt32(next - 1) }
        memoryTotal = total
        self.level = level
    }
}

extension NodeAddress {
    func append(to writer: ByteWriter) {
        writer.append(node: number)
        writer.append(counted: host)
        ports.append(to: writer)
        writer.append(flag: isOfLoneNode)
        writer.append(number: memoryTotal)
        writer.append(flag: level != nil)
        if let level { writer.append(level: level) }
    }

    init?(_ reader: inout ByteReader) {
        guard let number = reader.node(), let host = reader.text(), let ports = NodePorts(&reader),
            let isLone = reader.flag(), let total = reader.leb128(), let hasLevel = reader.flag()
        else { return nil }
        self.init(number: number, host: host, ports: ports)
        isOfLoneNode = isLone
        memoryTotal = total
        guard hasLevel else { return }
        guard let level = reader.level() else { return nil }
        self.level = level
    }
}

extension AlternateChange {
    func append(to writer: ByteWriter) {
        writer.append(node: number)
        writer.append(flag: address != nil)
        address?.append(to: writer)
    }

    init?(_ reader: inout ByteReader) {
        guard let number = reader.node(), let isThere = reader.flag() else { return nil }
        self.init(number: number, address: nil)
        guard isThere else { return }
        guard let address = AlternateAddress(&reader) else { return nil }
        self.address = address
    }
}

extension NodeStateChange {
    func append(to writer: ByteWriter) {
        writer.append(node: number)
        writer.append(membership.rawValue)
        writer.append(recovery.rawValue)
    }

    init?(_ reader: inout ByteReader) {
        guard let number = reader.node(),
            let membership = reader.byte().flatMap(NodeMembership.init(rawValue:)),
            let recovery = reader.byte().flatMap(RecoveryType.init(rawValue:))
        else { return nil }
        self.init(number: number, membership: membership, recovery: recovery)
    }
}

extension GroupLayout {
    func append(to writer: ByteWriter) {
        writer.append(list: groups) { $0.append(to: $1) }
        writer.append(list: members) { member, writer in
            writer.append(node: member.node)
            writer.append(counted: member.group)
        }
        writer.append(number: revision.map { UInt64($0) + 1 } ?? 0)
    }

    init?(_ reader: inout ByteReader) {
        let groups = reader.list { ServerGroup(&$0) }
        let members = reader.list { reader -> Member? in
            guard let node = reader.node(), let group = reader.text() else { return nil }
            return Member(node: node, group: group)
        }
        guard let groups, let members, let next = reader.leb128() else { return nil }
        self.init(groups: groups, members: members)
        guard next > 0 else { return }
        guard let revision = UInt32(exactly: next - 1) else { return nil }
        self.revision = revision
    }
}

extension NewBucket {
    func append(to writer: ByteWriter) {
        settings.append(to: writer)
        options.append(to: writer)
        writer.append(list: rows) { $1.append(chain: $0) }
    }

    init?(_ reader: inout ByteReader) {
        guard let settings = BucketSettings(&reader), let options = BucketOptions(&reader),
            let rows = reader.list({ $0.chain() })
        else { return nil }
        self.init(settings: settings, options: options, rows: rows)
    }
}

extension BucketChange {
    func append(to writer: ByteWriter) {
        settings.append(to: writer)
        options.append(to: writer)
        writer.append(flag: was != nil)
        guard let was else { return }
        was.settings.append(to: writer)
        was.options.append(to: writer)
    }

    init?(_ reader: inout ByteReader) {
        guard let settings = BucketSettings(&reader), let options = BucketOptions(&reader),
            let hasBasis = reader.flag()
        else { return nil }
        self.init(settings: settings, options: options)
        guard hasBasis else { return }
        guard let before = BucketSettings(&reader), let options = BucketOptions(&reader) else {
            return nil
        }
        was = Basis(settings: before, options: options)
    }
}

extension BucketStep {
    func append(to writer: ByteWriter) {
        writer.append(counted: name)
        writer.append(counted: uuid)
        writer.append(phase.rawValue)
        writer.append(number: flush)
    }

    init?(_ reader: inout ByteReader) {
        guard let name = reader.text(), let uuid = reader.text(),
            let phase = reader.byte().flatMap(Phase.init(rawValue:)), let flush = reader.leb128()
        else { return nil }
        self.init(name: name, uuid: uuid, phase: phase, flush: flush)
    }
}

extension TargetChange {
    init?(_ reader: inout ByteReader) {
        guard let bucket = reader.text(), let targets = BucketTargets(&reader) else { return nil }
        self.init(bucket: bucket, targets: targets)
    }
}

extension ProgressStep {
    func append(to writer: ByteWriter) {
        writer.append(counted: rebalance)
        reached.append(to: writer)
    }

    init?(_ reader: inout ByteReader) {
        guard let rebalance = reader.text(), let reached = RebalanceMark(&reader) else {
            return nil
        }
        self.init(rebalance: rebalance, reached: reached)
    }
}

extension FailoverStep {
    init?(_ reader: inout ByteReader) {
        guard let nodes = reader.nodes(), let flags = reader.byte(), flags < 4 else { return nil }
        self.init(nodes: nodes, isAutomatic: flags & 1 != 0, mayLose: flags & 2 != 0)
    }

    var flags: UInt8 { (isAutomatic ? 1 : 0) | (mayLose ? 2 : 0) }
}

/// Six to twelve bytes per vBucket: numbers are differences to the previous step.
extension VBucketSteps {
    func append(to writer: ByteWriter) {
        writer.append(counted: bucket)
        writer.append(nodes: deposes)
        var (vBucket, fence): (Int64, UInt64) = (0, 0)
        writer.append(list: steps) { step, writer in
            let number = Int64(step.vBucket.number)
            writer.append(number: LEB128.zigzag(number - vBucket))
            writer.append(number: LEB128.zigzag(Int64(bitPattern: step.fence &- fence)))
            writer.append(number: LEB128.zigzag(Int64(bitPattern: step.stage &- step.fence)))
            writer.append(UInt8(step.row.count) | (step.position == nil ? 0 : 8))
            for node in step.row { writer.append(node: node) }
            if let position = step.position { writer.append(position: position) }
            (vBucket, fence) = (number, step.fence)
        }
    }

    init?(_ reader: inout ByteReader) {
        guard let bucket = reader.text(), let deposes = reader.nodes() else { return nil }
        var (vBucket, fence): (Int64, UInt64) = (0, 0)
        let steps = reader.list { reader -> Step? in
            guard let distance = reader.leb128(), let fenceDistance = reader.leb128(),
                let stageDistance = reader.leb128(), let shape = reader.byte(), shape < 16,
                let number = UInt16(exactly: vBucket &+ LEB128.unzigzag(distance))
            else { return nil }
            vBucket = Int64(number)
            fence = fence &+ UInt64(bitPattern: LEB128.unzigzag(fenceDistance))
            var row: [NodeNumber] = []
            for _ in 0..<shape & 7 {
                guard let node = reader.node() else { return nil }
                row.append(node)
            }
            guard let row = NodeChain(row) else { return nil }
            var step = Step(
                vBucket: VBucketID(number),
                fence: fence,
                stage: fence &+ UInt64(bitPattern: LEB128.unzigzag(stageDistance)),
                row: row
            )
            if shape & 8 != 0 {
                guard let position = reader.position() else { return nil }
                step.position = position
            }
            return step
        }
        guard let steps else { return nil }
        self.init(bucket: bucket, steps: steps, deposes: deposes)
    }
}
