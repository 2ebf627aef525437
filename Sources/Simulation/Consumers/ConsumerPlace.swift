internal import Seams
internal import Vocabulary
internal import Wire

/// One vBucket that an outside consumer follows: what it has, and its stream.
final class ConsumerPlace {
    enum Stage {
        /// No stream. The consumer requests one at `retryAt`.
        case idle
        case requested(ConsumerLink, DCPStreamRequest, opaque: UInt32)
        /// A rollback was announced: the failover log is awaited, then the consumer goes back.
        case judging(ConsumerLink)
        case streaming(ConsumerLink, opaque: UInt32)
        /// The consumer has sent CLOSE_STREAM.
        case closing(ConsumerLink, opaque: UInt32)
    }

    let number: Int
    var view: ConsumerView
    var stage = Stage.idle
    var retryAt: UInt64 = 0
    /// The node of the last stream.
    var lastAddress: SocketAddress?
    /// Since when the stream's node has no active copy, although it could end the stream.
    var orphanedAt: UInt64?

    init(_ number: Int, hasValues: Bool) {
        self.number = number
        view = ConsumerView(hasValues: hasValues)
    }

    var id: VBucketID { VBucketID(UInt16(number)) }

    /// The connection of the stream, or of what is awaited.
    var link: ConsumerLink? {
        switch stage {
        case .idle: nil
        case .requested(let link, _, _), .judging(let link), .streaming(let link, _),
            .closing(let link, _):
            link
        }
    }

    var isStreaming: Bool { if case .streaming = stage { true } else { false } }

    /// Waits until `time` before the next request.
    func rest(until time: UInt64) {
        stage = .idle
        retryAt = time
        orphanedAt = nil
    }
}
