internal import Bytes
internal import Vocabulary

/// A request that a node forwards to the leader on behalf of an administrator.
enum LeaderRequest: Coded, Hashable {
    /// With the administrator or local user that ordered it.
    case failOver([NodeNumber], by: String)
    /// Stops the rebalance with this id. The id protects a later rebalance from a late request.
    case stopRebalance(String)
    case rebalanceReport
    /// Requests the reasons why nodes that are down are not failed over.
    case failoverReasons
    /// Requests the outcome of the newest epoch.
    case epochReport

    func write(to writer: inout FieldWriter) {
        switch self {
        case .failOver(let nodes, let login): writer.kind(0, nodes, login)
        case .stopRebalance(let id): writer.kind(1, id)
        case .rebalanceReport: writer.kind(2)
        case .failoverReasons: writer.kind(3)
        case .epochReport: writer.kind(4)
        }
    }

    init(from reader: inout FieldReader) throws(CodingFailure) {
        switch try reader.kind("request") {
        case 0: self = .failOver(try reader.payload(), by: try reader.payload())
        case 1: self = .stopRebalance(try reader.payload())
        case 2: self = .rebalanceReport
        case 3: self = .failoverReasons
        case 4: self = .epochReport
        case let kind: throw reader.failure(.unknownKind(kind))
        }
    }
}

/// The leader's answer; its texts are sentences for an operator.
enum LeaderAnswer: Coded, Hashable {
    case done(String)
    case refused(String)
    case report(RebalanceReport)
    case reasons([String])

    func write(to writer: inout FieldWriter) {
        switch self {
        case .done(let text): writer.kind(0, text)
        case .refused(let text): writer.kind(1, text)
        case .report(let report): writer.kind(2, report)
        case .reasons(let reasons): writer.kind(3, reasons)
        }
    }

    init(from reader: inout FieldReader) throws(CodingFailure) {
        switch try reader.kind("answer") {
        case 0: self = .done(try reader.payload())
        case 1: self = .refused(try reader.payload())
        case 2: self = .report(try reader.payload())
        case 3: self = .reasons(try reader.payload())
        case let kind: throw reader.failure(.unknownKind(kind))
        }
    }
}
