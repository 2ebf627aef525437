internal import Bytes
internal import Deflate
internal import NIOCore

/// The bytes of an answer that is written in parts.
///
/// The head is sent with the first part, so that an answer that ends before its first flush has a length, like
/// one of Sync Gateway.
final class StreamedAnswer {
    private let head: AnswerHead
    private let encoder: AnswerEncoder
    private var conditions: AnswerEncoder.Conditions
    private let isHead: Bool
    private let deflater: Deflater?
    private let pending = ByteWriter(capacity: 1 << 10)
    private(set) var isHeadSent = false

    /// Pending bytes that are sent without a flush.
    private static let pendingBytesMax = 16 << 10

    /// - Parameters:
    ///   - head: Status and fields.
    ///   - encoder: The loop's.
    ///   - conditions: With the framing of a stream.
    ///   - isHead: Whether the request is HEAD: nothing but the head is sent.
    init(
        _ head: AnswerHead,
        _ encoder: AnswerEncoder,
        conditions: AnswerEncoder.Conditions,
        isHead: Bool
    ) {
        self.head = head
        self.encoder = encoder
        self.conditions = conditions
        self.isHead = isHead
        var settings = DeflateSettings.small
        settings.level = AnswerEncoder.level
        deflater = conditions.isGzipped && !isHead ? Deflater(.gzip, settings) : nil
    }

    private var hasBody: Bool { !isHead && !head.isBodiless }

    /// Adds a part of the body.
    ///
    /// - Returns: What has to be sent now; nil if it is kept.
    func write(_ bytes: ByteView) -> ByteBuffer? {
        guard hasBody, !bytes.isEmpty else { return nil }
        if let deflater {
            deflater.deflate(bytes, to: pending)
        } else {
            pending.append(bytes)
        }
        return pending.count >= Self.pendingBytesMax ? send() : nil
    }

    /// The bytes that were written and not sent, and the head before them.
    func flush() -> ByteBuffer? {
        deflater?.flush(to: pending)
        return isHeadSent && pending.view.isEmpty ? nil : send()
    }

    /// The rest, and the end of the body.
    func end() -> ByteBuffer {
        deflater?.finish(to: pending)
        if !isHeadSent {
            conditions.framing = hasBody ? .length(pending.count) : .none
        }
        return send(isLast: true)
    }

    private func send(isLast: Bool = false) -> ByteBuffer {
        let isFirst = !isHeadSent
        isHeadSent = true
        let bytes = encoder.make { buffer in
            if isFirst { encoder.writeHead(head, conditions, to: &buffer) }
            guard case .chunked = conditions.framing else {
                buffer.writeBytes(pending.view.buffer)
                return
            }
            guard hasBody else { return }
            if !pending.view.isEmpty { AnswerEncoder.writeChunk(pending.view, to: &buffer) }
            if isLast { buffer.writeStaticString("0\r\n\r\n") }
        }
        pending.removeAll(keepingAtMost: Self.pendingBytesMax)
        return bytes
    }
}
