internal import Bytes
internal import Consensus

/// Frames between drivers: Raft's messages, snapshots in parts, proposals forwarded to the leader.
///
/// A frame may end with fields that this release does not know: decode it with `skipsRest`.
enum RaftFrame: Hashable {
    struct SnapshotHead: Hashable {
        var transfer: UInt64
        var parts: UInt64
        var checksum: UInt32
        /// Raft's snapshot message, delivered once all parts have arrived.
        var message: Message
    }

    case message(Message)
    case snapshotHead(SnapshotHead)
    case snapshotPart(transfer: UInt64, number: UInt64, bytes: [UInt8])
    /// So many parts are on disk. `snapshotRefused`: the receiver does not want the transfer.
    case snapshotTaken(transfer: UInt64, parts: UInt64)
    case snapshotRefused(transfer: UInt64)
    case forward(call: UInt64, commands: [[UInt8]])
    case forwardAnswer(call: UInt64, isAccepted: Bool)

    /// The size of a part: one row on disk, one packet of any transport.
    static let partBytes = 64 << 10
    private static let version: UInt8 = 1
}

extension RaftFrame: Coded {
    func write(to writer: inout FieldWriter) {
        Self.version.write(to: &writer)
        switch self {
        case .message(let message): writer.kind(0, message)
        case .snapshotHead(let head):
            writer.kind(1, head.transfer, head.parts, head.checksum, head.message.encoded)
        case .snapshotPart(let transfer, let number, let bytes):
            writer.kind(2, transfer, number, bytes)
        case .snapshotTaken(let transfer, let parts): writer.kind(3, transfer, parts)
        case .snapshotRefused(let transfer): writer.kind(4, transfer)
        case .forward(let call, let commands): writer.kind(5, call, commands)
        case .forwardAnswer(let call, let isAccepted): writer.kind(6, call, isAccepted)
        }
    }

    init(from reader: inout FieldReader) throws(CodingFailure) {
        let version = try reader.kind("version of the frame")
        try reader.require(version == Self.version, "version of the frame")
        switch try reader.kind("kind of the frame") {
        case 0: self = .message(try reader.payload())
        case 1:
            let head = SnapshotHead(
                transfer: try reader.payload(),
                parts: try reader.payload(),
                checksum: try reader.payload(),
                message: try Message(decoding: try reader.payload(), skipsRest: true)
            )
            self = .snapshotHead(head)
        case 2:
            let (transfer, number): (UInt64, UInt64) = (try reader.payload(), try reader.payload())
            let bytes: [UInt8] = try reader.payload()
            try reader.require(bytes.count <= Self.partBytes, "part of the snapshot")
            self = .snapshotPart(transfer: transfer, number: number, bytes: bytes)
        case 3:
            self = .snapshotTaken(transfer: try reader.payload(), parts: try reader.payload())
        case 4: self = .snapshotRefused(transfer: try reader.payload())
        case 5:
            let call: UInt64 = try reader.payload()
            let commands: [[UInt8]] = try reader.payload()
            try reader.require(!commands.isEmpty, "commands")
            self = .forward(call: call, commands: commands)
        case 6: self = .forwardAnswer(call: try reader.payload(), isAccepted: try reader.payload())
        case let kind: throw reader.failure(.unknownKind(kind))
        }
    }
}
