internal import Bytes
internal import Vocabulary

extension Administrator {
    func append(to writer: ByteWriter) {
        writer.append(counted: name)
        writer.append(counted: credentials)
    }

    init?(_ reader: inout ByteReader) {
        guard let name = reader.text(), let credentials = reader.counted() else { return nil }
        self.init(name: name, credentials: credentials)
    }
}

extension ClusterSettings {
    func append(to writer: ByteWriter) {
        writer.append(number: fragmentationPercent)
        writer.append(number: purgeIntervalHours)
        writer.append(number: maxBucketCount)
        writer.append(flag: autoFailover.isEnabled)
        writer.append(number: autoFailover.timeoutSeconds)
        writer.append(number: autoFailover.countMax)
        writer.append(flag: autoFailover.isForDiskIssues)
        writer.append(number: autoFailover.diskIssueSeconds)
        writer.append(number: movesPerNode)
        retry.append(to: writer)
        passwords.append(to: writer)
    }

    init?(_ reader: inout ByteReader) {
        guard let percent = reader.number(UInt16.self), let hours = reader.number(UInt32.self),
            let buckets = reader.number(UInt32.self), let isEnabled = reader.flag(),
            let timeout = reader.number(UInt16.self), let countMax = reader.number(UInt16.self),
            let isForDiskIssues = reader.flag(), let diskIssue = reader.number(UInt16.self),
            let moves = reader.number(UInt16.self), let retry = RetrySettings(&reader),
            let passwords = PasswordSettings(&reader)
        else { return nil }
        self.init()
        fragmentationPercent = percent
        purgeIntervalHours = hours
        maxBucketCount = buckets
        autoFailover.isEnabled = isEnabled
        autoFailover.timeoutSeconds = timeout
        autoFailover.countMax = countMax
        autoFailover.isForDiskIssues = isForDiskIssues
        autoFailover.diskIssueSeconds = diskIssue
        movesPerNode = moves
        self.retry = retry
        self.passwords = passwords
    }
}

extension PasswordSettings {
    func append(to writer: ByteWriter) {
        writer.append(number: iterations)
        writer.append(flag: offersSHA1)
    }

    init?(_ reader: inout ByteReader) {
        guard let iterations = reader.number(UInt32.self),
            Self.iterationsRange.contains(UInt64(iterations)), let offersSHA1 = reader.flag()
        else { return nil }
        self.init()
        self.iterations = iterations
        self.offersSHA1 = offersSHA1
    }
}

extension RetrySettings {
    func append(to writer: ByteWriter) {
        writer.append(flag: isEnabled)
        writer.append(number: afterSeconds)
        writer.append(number: attemptsMax)
    }

    init?(_ reader: inout ByteReader) {
        guard let isEnabled = reader.flag(), let after = reader.number(UInt16.self),
            let attempts = reader.number(UInt16.self)
        else { return nil }
        self.init()
        self.isEnabled = isEnabled
        afterSeconds = after
        attemptsMax = attempts
    }
}

extension RebalanceRetry {
    func append(to writer: ByteWriter) {
        writer.append(counted: id)
        writer.append(nodes: kept)
        writer.append(nodes: ejected)
        writer.append(number: attempt)
        writer.append(number: dueMilliseconds)
        writer.append(counted: login ?? "")
    }

    init?(_ reader: inout ByteReader) {
        guard let id = reader.text(), let kept = reader.nodes(), let ejected = reader.nodes(),
            let attempt = reader.number(UInt16.self), let due = reader.leb128(),
            let login = reader.text()
        else { return nil }
        self.init(id: id, kept: kept, ejected: ejected, attempt: attempt, dueMilliseconds: due)
        self.login = login.isEmpty ? nil : login
    }
}

extension NodePorts {
    func append(to writer: ByteWriter) {
        for port in [admin, data, adminTLS, dataTLS, peer, views] { writer.append(bigEndian: port) }
    }

    init?(_ reader: inout ByteReader) {
        guard let admin = reader.bigEndian(UInt16.self), let data = reader.bigEndian(UInt16.self),
            let adminTLS = reader.bigEndian(UInt16.self),
            let dataTLS = reader.bigEndian(UInt16.self), let peer = reader.bigEndian(UInt16.self),
            let views = reader.bigEndian(UInt16.self)
        else { return nil }
        self.init(admin: admin, data: data, adminTLS: adminTLS, dataTLS: dataTLS, peer: peer)
        self.views = views
    }
}

extension ServerGroup {
    func append(to writer: ByteWriter) {
        writer.append(counted: name)
        writer.append(counted: uuid)
    }

    init?(_ reader: inout ByteReader) {
        guard let name = reader.text(), let uuid = reader.text() else { return nil }
        self.init(name: name, uuid: uuid)
    }
}

extension AlternateAddress {
    func append(to writer: ByteWriter) {
        writer.append(counted: host)
        writer.append(list: ports) { port, writer in
            writer.append(counted: port.service)
            writer.append(bigEndian: port.number)
        }
    }

    init?(_ reader: inout ByteReader) {
        guard let host = reader.text(),
            let ports = reader.list({ reader -> Port? in
                guard let service = reader.text(), let number = reader.bigEndian(UInt16.self)
                else { return nil }
                return Port(service: service, number: number)
            })
        else { return nil }
        self.init(host: host, ports: ports)
    }
}

extension NodeRecord {
    func append(to writer: ByteWriter) {
        writer.append(node: number)
        writer.append(counted: uuid)
        writer.append(counted: host)
        ports.append(to: writer)
        writer.append(keys: keys)
        writer.append(counted: group)
        writer.append(list: services) { $1.append(counted: $0) }
        writer.append(membership.rawValue)
        writer.append(recovery.rawValue)
        writer.append(number: fencedAt)
        writer.append(number: memoryTotal)
        writer.append(level: level)
        writer.append(flag: alternate != nil)
        alternate?.append(to: writer)
    }

    init?(_ reader: inout ByteReader) {
        guard let number = reader.node(), let uuid = reader.text(), let host = reader.text(),
            let ports = NodePorts(&reader), let keys = reader.keys(), let group = reader.text(),
            let services = reader.list({ $0.text() }),
            let membership = reader.byte().flatMap(NodeMembership.init(rawValue:)),
            let recovery = reader.byte().flatMap(RecoveryType.init(rawValue:)),
            let fencedAt = reader.leb128(), let memoryTotal = reader.leb128(),
            let level = reader.level(), let hasAlternate = reader.flag()
        else { return nil }
        self.init(number: number, uuid: uuid, host: host, ports: ports, keys: keys)
        self.group = group
        self.services = services
        self.membership = membership
        self.recovery = recovery
        self.fencedAt = fencedAt
        self.memoryTotal = memoryTotal
        self.level = level
        guard hasAlternate else { return }
        guard let alternate = AlternateAddress(&reader) else { return nil }
        self.alternate = alternate
    }
}

extension RebalanceRecord {
    func append(to writer: ByteWriter) {
        writer.append(counted: id)
        writer.append(kind.rawValue)
        for list in [kept, ejected, delta] { writer.append(nodes: list) }
        writer.append(number: startedMilliseconds)
        writer.append(counted: login ?? "")
        writer.append(counted: bucket ?? "")
        reached.append(to: writer)
    }

    init?(_ reader: inout ByteReader) {
        guard let id = reader.text(), let kind = reader.byte().flatMap(Kind.init(rawValue:)),
            let kept = reader.nodes(), let ejected = reader.nodes(), let delta = reader.nodes(),
            let started = reader.leb128(), let login = reader.text(), let bucket = reader.text(),
            let reached = RebalanceMark(&reader)
        else { return nil }
        self.init(id: id, kind: kind, kept: kept, ejected: ejected, startedMilliseconds: started)
        self.login = login.isEmpty ? nil : login
        self.delta = delta
        self.bucket = bucket.isEmpty ? nil : bucket
        self.reached = reached
    }
}

extension RebalanceMark {
    func append(to writer: ByteWriter) {
        writer.append(number: all)
        writer.append(list: parts) { part, writer in
            writer.append(node: part.node)
            writer.append(number: part.reached)
        }
    }

    init?(_ reader: inout ByteReader) {
        let all = reader.number(UInt16.self)
        let parts = reader.list { reader -> Part? in
            guard let node = reader.node(), let reached = reader.number(UInt16.self) else {
                return nil
            }
            return Part(node: node, reached: reached)
        }
        guard let all, let parts else { return nil }
        self.init(all: all, parts: parts)
    }
}

extension RebalanceOutcome {
    func append(to writer: ByteWriter) {
        writer.append(counted: id)
        writer.append(kind.rawValue)
        writer.append(verdict.rawValue)
        writer.append(counted: sentence)
        writer.append(number: endedMilliseconds)
    }

    init?(_ reader: inout ByteReader) {
        guard let id = reader.text(),
            let kind = reader.byte().flatMap(RebalanceRecord.Kind.init(rawValue:)),
            let verdict = reader.byte().flatMap(Verdict.init(rawValue:)),
            let sentence = reader.text(), let ended = reader.leb128()
        else { return nil }
        self.init(id: id, verdict: verdict, sentence: sentence, endedMilliseconds: ended)
        self.kind = kind
    }
}

extension ProposalTable.Row {
    func append(to writer: ByteWriter) {
        writer.append(number: node.value)
        writer.append(bigEndian: boot)
        writer.append(number: last)
        writer.append(bigEndian: seen)
        writer.append(bigEndian: refused)
    }

    init?(_ reader: inout ByteReader) {
        guard let node = reader.number(UInt16.self), let boot = reader.bigEndian(UInt64.self),
            let last = reader.leb128(), let seen = reader.bigEndian(UInt64.self),
            let refused = reader.bigEndian(UInt64.self)
        else { return nil }
        self.init(node: NodeNumber(node), boot: boot, last: last, seen: seen, refused: refused)
    }
}
