internal import Bytes
internal import Replication
internal import Vocabulary

/// A feed that a connection or a stream between nodes sends.
class FeedStream {
    let feed: VBucketFeed
    fileprivate(set) var handle: StreamPump.Handle?

    init(_ feed: VBucketFeed) { self.feed = feed }

    /// Whether the stream is inside a snapshot that its consumer has to get as a whole.
    var isBusy: Bool { false }
}

/// Steps the feeds of one connection, or of one stream between nodes, in the order of a `StreamPump`.
///
/// A feed that wakes its handler names its key and ticket; the ticket distinguishes the stream from
/// an earlier one of the same key.
final class FeedPump<Key: Hashable, Stream: FeedStream> {
    private(set) var streams: [Key: Stream] = [:]
    var machine: StreamPump
    /// By the index of its handle.
    private var entries: [(key: Key, stream: Stream)?] = []

    /// The bytes of one feed per turn, and of all feeds before the reactor serves others.
    static var turnBytes: Int { 64 << 10 }

    init(admittedMax: Int? = nil) {
        machine = StreamPump(turnBytes: Self.turnBytes, admittedMax: admittedMax)
    }

    /// The ticket of the stream that is added next.
    var nextTicket: UInt64 { machine.nextNumber }

    /// Adds a stream of a new key, which may have work.
    func add(_ stream: Stream, at key: Key, window: Int) {
        let handle = machine.add(window: window)
        stream.handle = handle
        streams[key] = stream
        if handle.index == entries.count { entries.append(nil) }
        entries[handle.index] = (key, stream)
    }

    /// Closes the feed of a key and removes its stream; nil if there is none.
    @discardableResult
    func remove(_ key: Key) -> Stream? {
        guard let stream = streams.removeValue(forKey: key) else { return nil }
        stream.feed.close()
        if let handle = stream.handle {
            machine.remove(handle)
            entries[handle.index] = nil
        }
        return stream
    }

    func removeAll() {
        for key in Array(streams.keys) { remove(key) }
    }

    /// Queues a stream that may have work; ignored if its key has another ticket by now.
    func wake(_ key: Key, ticket: UInt64) {
        guard let handle = streams[key]?.handle, handle.number == ticket else { return }
        machine.wake(handle)
    }

    func wake(_ stream: Stream) {
        if let handle = stream.handle { machine.wake(handle) }
    }

    /// Queues streams that may have missed a wakeup, and ends scans without progress; once a second.
    ///
    /// - Parameter all: Whether every stream is queued.
    func retry(all: Bool = false) {
        for stream in streams.values {
            let isStalled = stream.feed.endIfStalled()
            let isRetired = stream.feed.bucket.isRetired
            if all || isStalled || isRetired || stream.feed.isReadingDisk { wake(stream) }
        }
    }

    /// Steps the streams in turn, until the output is large enough or no stream has work.
    ///
    /// - Parameters:
    ///   - output: Where the streams' messages go.
    ///   - end: The count of the output that is large enough.
    ///   - limit: The credit of a stream, of at most the passed one; nil if the stream is not to be
    ///     stepped until it is woken.
    ///   - stepped: Called after a step with the stream and the end of the output before it.
    ///   - ended: Called with each stream whose feed is over, after its removal.
    /// - Returns: Whether streams have work that waits for the output to be sent.
    func pump(
        _ output: ByteWriter,
        upTo end: Int = turnBytes,
        limit: (Stream, Int) -> Int? = { $1 },
        stepped: (Stream, Int) -> Void = { _, _ in },
        ended: (Key, Stream) -> Void = { _, _ in }
    ) -> Bool {
        while output.count < end, let handle = machine.next() {
            guard let (key, stream) = entries[handle.index] else { continue }
            guard let credit = limit(stream, machine.credit(of: handle)) else {
                machine.finish(handle, .asleep, credit: 0, sent: 0, isReading: true)
                continue
            }
            let before = output.count
            let progress = stream.feed.step(credit: credit, into: output)
            stepped(stream, before)
            machine.finish(
                handle,
                progress,
                credit: credit,
                sent: output.count - before,
                isReading: stream.feed.isReadingChanges,
                isBusy: stream.isBusy
            )
            guard progress == .over else { continue }
            remove(key)
            ended(key, stream)
        }
        return machine.hasWork && output.count > 0
    }
}
