internal import Bytes
internal import Consensus
internal import Vocabulary

/// Frames between drivers: Raft's messages, snapshots in parts, proposals forwarded to the leader.
///
/// - A count is checked against the bytes that are there before memory is reserved for it.
/// - A frame may end with fields that this release does not know: they are skipped.
enum RaftFrame: Hashable {
    struct SnapshotHead: Hashable {
        var transfer: UInt64
        /// Raft's snapshot message, delivered once all parts have arrived.
        var message: Message
        var parts: UInt64
        var checksum: UInt32
    }

    enum ForwardAnswer: Hashable {
        case accepted
        case refused
    }

    case message(Message)
    case snapshotHead(SnapshotHead)
    case snapshotPart(transfer: UInt64, number: UInt64, bytes: [UInt8])
    /// So many parts are on disk. `snapshotRefused`: the receiver does not want the transfer.
    case snapshotTaken(transfer: UInt64, parts: UInt64)
    case snapshotRefused(transfer: UInt64)
    case forward(call: UInt64, commands: [[UInt8]])
    case forwardAnswer(call: UInt64, ForwardAnswer)

    /// The size of a part: one row on disk, one packet of any transport.
    static let partBytes = 64 << 10
    private static let version: UInt8 = 1

    var encoded: [UInt8] {
        let writer = ByteWriter(capacity: 256)
        writer.append(Self.version)
        switch self {
        case .message(let message):
            writer.append(0)
            MessageCodec.append(message, to: writer)
        case .snapshotHead(let head):
            writer.append(1)
            for number in [head.transfer, head.parts, UInt64(head.checksum)] {
                LEB128.append(number, to: writer)
            }
            let message = ByteWriter(capacity: 64)
            MessageCodec.append(head.message, to: message)
            Self.append(counted: message.view, to: writer)
        case .snapshotPart(let transfer, let number, let bytes):
            writer.append(2)
            LEB128.append(transfer, to: writer)
            LEB128.append(number, to: writer)
            LEB128.append(UInt64(bytes.count), to: writer)
            writer.append(bytes)
        case .snapshotTaken(let transfer, let parts):
            writer.append(3)
            LEB128.append(transfer, to: writer)
            LEB128.append(parts, to: writer)
        case .snapshotRefused(let transfer):
            writer.append(4)
            LEB128.append(transfer, to: writer)
        case .forward(let call, let commands):
            writer.append(5)
            LEB128.append(call, to: writer)
            LEB128.append(UInt64(commands.count), to: writer)
            for command in commands {
                LEB128.append(UInt64(command.count), to: writer)
                writer.append(command)
            }
        case .forwardAnswer(let call, let answer):
            writer.append(6)
            LEB128.append(call, to: writer)
            writer.append(answer == .accepted ? 1 : 0)
        }
        return writer.bytes
    }

    static func decode(_ bytes: [UInt8]) -> RaftFrame? {
        bytes.withUnsafeBytes { decode(ByteView($0)) }
    }

    private static func decode(_ view: ByteView) -> RaftFrame? {
        var reader = ByteReader(view)
        guard reader.bigEndian(UInt8.self) == version, let kind = reader.bigEndian(UInt8.self)
        else { return nil }
        if kind == 0 { return message(reader.rest).map { .message($0) } }
        guard let first = reader.leb128() else { return nil }
        switch kind {
        case 1:
            guard let parts = reader.leb128(), let checksum = reader.leb128(),
                let checksum = UInt32(exactly: checksum), let bytes = counted(&reader),
                let message = message(bytes)
            else { return nil }
            return .snapshotHead(
                .init(transfer: first, message: message, parts: parts, checksum: checksum)
            )
        case 2:
            guard let number = reader.leb128(), let bytes = counted(&reader),
                bytes.count <= partBytes
            else { return nil }
            return .snapshotPart(transfer: first, number: number, bytes: bytes.bytes)
        case 3:
            guard let parts = reader.leb128() else { return nil }
            return .snapshotTaken(transfer: first, parts: parts)
        case 4: return .snapshotRefused(transfer: first)
        case 5: return commands(&reader).map { .forward(call: first, commands: $0) }
        case 6:
            guard let answer = reader.bigEndian(UInt8.self), answer < 2 else { return nil }
            return .forwardAnswer(call: first, answer == 1 ? .accepted : .refused)
        default: return nil
        }
    }

    private static func message(_ view: ByteView) -> Message? {
        try? MessageCodec.decode(view)
    }

    private static func commands(_ reader: inout ByteReader) -> [[UInt8]]? {
        guard let count = reader.leb128(), count > 0, count <= UInt64(reader.rest.count) else {
            return nil
        }
        var commands: [[UInt8]] = []
        for _ in 0..<count {
            guard let command = counted(&reader) else { return nil }
            commands.append(command.bytes)
        }
        return commands
    }

    private static func append(counted bytes: ByteView, to writer: ByteWriter) {
        LEB128.append(UInt64(bytes.count), to: writer)
        writer.append(bytes)
    }

    private static func counted(_ reader: inout ByteReader) -> ByteView? {
        guard let count = reader.leb128(), count <= UInt64(reader.rest.count) else { return nil }
        return reader.bytes(Int(count))
    }
}
