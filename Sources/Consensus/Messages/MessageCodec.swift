package import Bytes
internal import Vocabulary

/// Why bytes could not be decoded.
package enum MessageDecodingError: Error, Hashable, Sendable {
    case tooLong(Int)
    case cutShort
    case unknownVersion(UInt8)
    case unknownKind(UInt8)
    /// A number that its field cannot hold, an unsorted list of nodes, or entries with a gap.
    case malformed
    case bytesLeftOver(Int)
}

/// Encodes and decodes messages and log entries: a version, a kind, and numbers as LEB128.
///
/// A message may end with fields that this release does not know: `decode` skips them. A log entry
/// may not: a node that skipped a field would store another log than the others.
///
/// - A count is checked against the bytes that are left before memory is reserved for it, so
///   decoding takes at most a small multiple of its input in memory.
/// - An encoded message decodes to an equal one. Every proper prefix of it is an error.
package enum MessageCodec {
    static let version: UInt8 = 1
    /// Maximal size of a message: larger than any append.
    package static let bytesMax = 32 << 20

    package static func append(_ message: Message, to writer: ByteWriter) {
        writer.append(version)
        writer.append(message.body.kind.rawValue)
        writer.append(bigEndian: message.from.value)
        writer.append(bigEndian: message.to.value)
        LEB128.append(message.term, to: writer)
        message.body.append(to: writer)
    }

    /// Decodes one message, which takes up all of `view`, with the unknown fields at its end.
    ///
    /// - Throws: `MessageDecodingError`: `tooLong` above `bytesMax`, `cutShort` if bytes are
    ///   missing, otherwise what is wrong with the bytes.
    package static func decode(_ view: ByteView) throws(MessageDecodingError) -> Message {
        guard view.count <= bytesMax else { throw .tooLong(view.count) }
        var source = MessageSource(view)
        let version = try source.byte()
        guard version == Self.version else { throw .unknownVersion(version) }
        let number = try source.byte()
        guard let kind = MessageKind(rawValue: number) else { throw .unknownKind(number) }
        let from = try source.node()
        let to = try source.node()
        let term = try source.number()
        let body = try Message.Body(kind, &source)
        return Message(from: from, to: to, term: term, body: body)
    }

    /// Encodes an entry for the disk, without a version.
    package static func append(_ entry: LogEntry, to writer: ByteWriter) {
        entry.append(to: writer)
    }

    /// Decodes an entry written by `append(_:to:)`, which takes up all of `view`.
    ///
    /// - Throws: `MessageDecodingError`, as `decode` does, and `bytesLeftOver` if bytes follow the
    ///   entry.
    package static func decodeEntry(_ view: ByteView) throws(MessageDecodingError) -> LogEntry {
        var source = MessageSource(view)
        let entry = try source.entry()
        guard source.isAtEnd else { throw .bytesLeftOver(source.bytesLeft) }
        return entry
    }
}

enum MessageKind: UInt8 {
    case voteRequest = 1
    case voteResponse
    case append
    case appendAccepted
    case appendRejected
    case heartbeat
    case heartbeatResponse
    case snapshot
    case timeoutNow
    case readRequest
    case readResponse
    case newerTerm
}

extension Message.Body {
    fileprivate var kind: MessageKind {
        switch self {
        case .voteRequest: .voteRequest
        case .voteResponse: .voteResponse
        case .append: .append
        case .appendResponse(.accepted): .appendAccepted
        case .appendResponse(.rejected): .appendRejected
        case .heartbeat: .heartbeat
        case .heartbeatResponse: .heartbeatResponse
        case .snapshot: .snapshot
        case .timeoutNow: .timeoutNow
        case .readRequest: .readRequest
        case .readResponse: .readResponse
        case .newerTerm: .newerTerm
        }
    }

    fileprivate func append(to writer: ByteWriter) {
        switch self {
        case .voteRequest(let request):
            request.last.append(to: writer)
            writer.append(flags: request.isPreVote, request.isTransfer)
        case .voteResponse(let response):
            writer.append(flags: response.isGranted, response.isPreVote)
        case .append(let append):
            append.previous.append(to: writer)
            LEB128.append(append.commit, to: writer)
            LEB128.append(UInt64(append.entries.count), to: writer)
            for entry in append.entries { entry.append(to: writer) }
        case .appendResponse(.accepted(let received, let acknowledged)):
            LEB128.append(received, to: writer)
            LEB128.append(acknowledged, to: writer)
        case .appendResponse(.rejected(let previous, let hint)):
            LEB128.append(previous, to: writer)
            hint.append(to: writer)
        case .heartbeat(let beat):
            LEB128.append(beat.commit, to: writer)
            LEB128.append(beat.round, to: writer)
        case .heartbeatResponse(let round):
            LEB128.append(round, to: writer)
        case .snapshot(let snapshot):
            snapshot.position.append(to: writer)
            snapshot.configuration.append(to: writer)
        case .readRequest(let context):
            LEB128.append(context, to: writer)
        case .readResponse(let context, let index):
            LEB128.append(context, to: writer)
            LEB128.append(index, to: writer)
        case .timeoutNow, .newerTerm: break
        }
    }

    fileprivate init(
        _ kind: MessageKind,
        _ source: inout MessageSource
    ) throws(MessageDecodingError) {
        switch kind {
        case .voteRequest:
            let last = try source.position()
            let (isPreVote, isTransfer) = try source.flags()
            self = .voteRequest(.init(last: last, isPreVote: isPreVote, isTransfer: isTransfer))
        case .voteResponse:
            let (isGranted, isPreVote) = try source.flags()
            self = .voteResponse(.init(isGranted: isGranted, isPreVote: isPreVote))
        case .append:
            self = .append(try source.append())
        case .appendAccepted:
            let received = try source.number()
            self = .appendResponse(
                .accepted(received: received, acknowledged: try source.number())
            )
        case .appendRejected:
            let previous = try source.number()
            self = .appendResponse(.rejected(previous: previous, hint: try source.position()))
        case .heartbeat:
            let commit = try source.number()
            self = .heartbeat(.init(commit: commit, round: try source.number()))
        case .heartbeatResponse: self = .heartbeatResponse(round: try source.number())
        case .snapshot:
            let position = try source.position()
            let configuration = try source.configuration()
            self = .snapshot(.init(position: position, configuration: configuration))
        case .timeoutNow: self = .timeoutNow
        case .readRequest: self = .readRequest(context: try source.number())
        case .readResponse:
            let context = try source.number()
            self = .readResponse(context: context, index: try source.number())
        case .newerTerm: self = .newerTerm
        }
    }
}
