internal import Bytes
internal import Vocabulary

/// A request that a node forwards to the leader on behalf of an administrator.
enum LeaderRequest: PeerPayload, Hashable {
    /// With the administrator or local user that ordered it.
    case failOver([NodeNumber], by: String)
    /// Stops the rebalance with this id. The id protects a later rebalance from a late request.
    case stopRebalance(String)
    case rebalanceReport
    /// Requests the reasons why nodes that are down are not failed over.
    case failoverReasons
    /// Requests the outcome of the newest epoch.
    case epochReport

    init?(_ reader: inout ByteReader) {
        switch reader.bigEndian(UInt8.self) {
        case 0:
            guard let nodes = reader.nodes(), let login = reader.text() else { return nil }
            self = .failOver(nodes, by: login)
        case 1:
            guard let id = reader.text() else { return nil }
            self = .stopRebalance(id)
        case 2: self = .rebalanceReport
        case 3: self = .failoverReasons
        case 4: self = .epochReport
        default: return nil
        }
    }

    func append(to writer: ByteWriter) {
        switch self {
        case .failOver(let nodes, let login):
            writer.append(UInt8(0))
            writer.append(nodes: nodes)
            writer.append(counted: login)
        case .stopRebalance(let id):
            writer.append(UInt8(1))
            writer.append(counted: id)
        case .rebalanceReport: writer.append(UInt8(2))
        case .failoverReasons: writer.append(UInt8(3))
        case .epochReport: writer.append(UInt8(4))
        }
    }
}

/// The leader's answer; its texts are sentences for an operator.
enum LeaderAnswer: PeerPayload, Hashable {
    case done(String)
    case refused(String)
    case report(RebalanceReport)
    case reasons([String])

    init?(_ reader: inout ByteReader) {
        switch reader.bigEndian(UInt8.self) {
        case 0:
            guard let text = reader.text() else { return nil }
            self = .done(text)
        case 1:
            guard let text = reader.text() else { return nil }
            self = .refused(text)
        case 2:
            guard let report = reader.record(RebalanceReport.self) else { return nil }
            self = .report(report)
        case 3:
            guard let count = reader.leb(Int.self), count <= reader.rest.count else { return nil }
            var reasons: [String] = []
            for _ in 0..<count {
                guard let reason = reader.text() else { return nil }
                reasons.append(reason)
            }
            self = .reasons(reasons)
        default: return nil
        }
    }

    func append(to writer: ByteWriter) {
        switch self {
        case .done(let text):
            writer.append(UInt8(0))
            writer.append(counted: text)
        case .refused(let text):
            writer.append(UInt8(1))
            writer.append(counted: text)
        case .report(let report):
            writer.append(UInt8(2))
            writer.append(record: report)
        case .reasons(let reasons):
            writer.append(UInt8(3))
            writer.append(leb: reasons.count)
            for reason in reasons { writer.append(counted: reason) }
        }
    }
}
