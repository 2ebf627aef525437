internal import Bytes
internal import Engine
internal import Replication
internal import Seams
internal import Synchronization
internal import Vocabulary
internal import Wire

/// Sends the changes of a bucket's active copies on this node to one client over TAP.
///
/// TAP has no positions and no streams: a connection gets the changes of every vBucket that is
/// active here, also of one that becomes active later. Such a vBucket begins at the position that
/// this node's copy had when the client connected: changes that the client got from another node are
/// repeated. A client that asks for no history begins at the position that `TapPositions` has of a
/// vBucket that moved here in the last minute.
///
/// - A client does not follow the map. So the connection closes some seconds after another node gets
///   copies, when all nodes have the map: the client then reads it and connects to all of them.
///   Its next connection to this node continues from the kept positions, and the changes that another
///   node makes meanwhile are noted there (`TapPositions`).
/// - With acknowledgements, at most `marksMax` marked messages wait for their answer.
/// - A dump that starts at the present is complete at once: it has no documents.
final class TapProducer {
    private typealias Position = TapPositions.Position

    /// The shared state of the messages of all streams: their format, and the marks that await an answer.
    private final class Messages: Sendable {
        let hasKeysOnly: Bool
        let asksForAnswers: Bool
        private let opaque = Atomic<UInt32>(0)
        private let unmarkedBytes = Atomic<Int>(0)
        let openMarks = Atomic<Int>(0)

        init(_ flags: TapRequest.Flags) {
            hasKeysOnly = flags.contains(.keysOnly)
            asksForAnswers = flags.contains(.supportAcknowledgement)
        }

        func nextOpaque() -> UInt32 { opaque.add(1, ordering: .relaxed).newValue }

        func append(_ change: DCPChange, _ vBucket: VBucketID, to output: ByteWriter) {
            // TAP has no extended attributes.
            let body = XattrBlob.body(of: change.value, change.meta.datatype)
            let change = DCPChange(
                meta: change.meta,
                key: change.key,
                value: hasKeysOnly ? .empty : body
            )
            let isMarked = asksForAnswers && isMarkDue(change.key.count + change.value.count)
            if isMarked { openMarks.add(1, ordering: .relaxed) }
            TapEncoder.append(
                change,
                vBucket,
                opaque: nextOpaque(),
                asksForAnswer: isMarked,
                to: output
            )
        }

        private func isMarkDue(_ bytes: Int) -> Bool {
            let sum = unmarkedBytes.add(bytes + 40, ordering: .relaxed).newValue
            guard sum >= TapProducer.markBytes else { return false }
            unmarkedBytes.store(0, ordering: .relaxed)
            return true
        }
    }

    /// The bytes between two messages that the client acknowledges.
    fileprivate static let markBytes = 64 << 10
    private static let marksMax = 16
    private static let noopSeconds = 20
    /// The kept positions are two to three ticks old: older than a change that a client may have dropped
    /// because it had closed its feed.
    private static let samplesMax = 3

    let streams: ClientStreamSet
    private let request: TapRequest
    private let messages: Messages
    private let clock: ClientProducerClock
    private let client: TapPositions.Client
    private let connection: TapPositions.ConnectionNumber
    /// The positions at the last ticks, the oldest first.
    private var samples: [[VBucketID: Position]] = []
    private var positions: [VBucketID: Position] = [:]
    /// The seqnos at which the backfill of each vBucket ends; nil once its end was sent.
    private var backfill: [VBucketID: Seqno]?
    private var owesBeginning: Bool
    private var ticks = 0
    /// A vBucket of a dump left this node before it was sent.
    private var isInterrupted = false
    /// The nodes of the map that the client knew when it connected.
    private let nodes: Set<NodeNumber>

    init(
        _ request: TapRequest,
        _ bucket: OpenBucket,
        port: any ConnectionPort,
        login: Login,
        service: DocumentService
    ) {
        self.request = request
        client = TapPositions.Client(login: "\(login)", host: port.peer.host)
        messages = Messages(request.flags)
        let streams = ClientStreamSet(name: "tap", bucket, port: port, service)
        self.streams = streams
        clock = ClientProducerClock(service, port: port) { [events = streams.events] in
            events.put(.tick)
        }
        backfill = request.startsAtPresent ? nil : [:]
        owesBeginning = !request.startsAtPresent
        connection = bucket.tapPositions.nextConnection()
        nodes = bucket.tapPositions.knownNodes(at: clock.now)
        for vBucket in bucket.engine.all {
            let copy: (VBucketID, Position)? = vBucket.withCore { core in
                guard core.isThere, core.isLoaded else { return nil }
                return (core.id, Position(uuid: core.uuid, seqno: core.coveredSeqno))
            }
            if let copy, request.startsAtPresent { positions[copy.0] = copy.1 }
        }
        if request.startsAtPresent {
            // After the copies' positions: a copy that became active before they were read is noted.
            let earlier = bucket.tapPositions.positions(of: client, at: clock.now)
            positions.merge(earlier) { $1 }
            keepPositions()
        }
        clock.start()
        openStreams()
    }

    private var isEmptyDump: Bool {
        request.flags.contains(.dump) && request.startsAtPresent
    }

    /// The client answered a marked message.
    func acknowledge() {
        if messages.openMarks.load(ordering: .relaxed) > 0 {
            messages.openMarks.subtract(1, ordering: .relaxed)
        }
    }

    // MARK: Streams

    /// Opens a stream of each requested vBucket that is active here and has none.
    private func openStreams() {
        guard !isEmptyDump else { return }
        for vBucket in streams.bucket.engine.all {
            let standing: (id: VBucketID, covered: Seqno)? = vBucket.withCore { core in
                guard core.state == .active, core.isLoaded else { return nil }
                return (core.id, core.coveredSeqno)
            }
            guard let standing, streams[standing.id] == nil,
                request.vBuckets?.contains(standing.id) ?? true
            else { continue }
            // A dump sends each vBucket once.
            if request.flags.contains(.dump), backfill?[standing.id] != nil { continue }
            open(standing.id, backfillEnd: standing.covered)
        }
    }

    private func open(_ vBucket: VBucketID, backfillEnd: Seqno) {
        let at = positions[vBucket] ?? .beginning
        var opening = request(vBucket, at)
        if case .rollBack(let seqno, let log) = opening {
            // The client keeps the lost versions, as the protocol has no rollback.
            opening = request(vBucket, Position(uuid: log.current.uuid, seqno: seqno))
        }
        guard case .opened(let feed, _, let log) = opening else { return }
        positions[vBucket] = Position(uuid: log.current.uuid, seqno: feed.position)
        if backfill?[vBucket] == nil { backfill?[vBucket] = backfillEnd }
        streams.start(vBucket, opaque: 0, feed)
    }

    private func request(_ vBucket: VBucketID, _ at: Position) -> FeedOpening {
        let isDump = request.flags.contains(.dump)
        let asked = DCPStreamRequest(
            flags: isDump ? .toLatest : [],
            start: at.seqno,
            end: .last,
            uuid: at.seqno == .zero ? VBucketUUID(0) : at.uuid,
            snapshotStart: at.seqno,
            snapshotEnd: at.seqno
        )
        return streams.open(vBucket, asked) { [messages] item, output in
            if case .change(let change) = item { messages.append(change, vBucket, to: output) }
        }
    }

    /// Keeps the position of a stream that ended: its vBucket may become active here again.
    private func recordEnd(_ stream: ClientStream) {
        positions[stream.vBucket]?.seqno = stream.feed.position
        guard request.flags.contains(.dump), let end = backfill?[stream.vBucket] else { return }
        if stream.feed.position < end { isInterrupted = true }
    }

    /// Keeps earlier positions for the client's next connection.
    ///
    /// A connection may close at any time, and the client's next one may begin before this node has
    /// noticed that. So positions are kept at each tick, not at the end.
    private func keepPositions() {
        guard backfill == nil, !request.flags.contains(.dump) else { return }
        for (vBucket, stream) in streams.streams {
            positions[vBucket]?.seqno = stream.feed.position
        }
        // A vBucket that comes to this node after the connection begins at its beginning.
        for index in streams.bucket.engine.all.indices {
            let vBucket = VBucketID(UInt16(index))
            if positions[vBucket] == nil { positions[vBucket] = .beginning }
        }
        samples.append(positions)
        if samples.count > TapProducer.samplesMax { samples.removeFirst() }
        streams.bucket.tapPositions.keep(
            samples[0],
            of: client,
            connection: connection,
            at: clock.now
        )
    }

    /// Whether the map has a node that the client did not know when it connected.
    ///
    /// A client connects to the nodes that it knows, and never to one that joins later: it reads the
    /// map again only when a connection closes.
    private var isMissingNode: Bool {
        let known = streams.bucket.tapPositions.knownNodes(at: clock.now)
        return !known.isSubset(of: nodes)
    }

    /// Handles a tick of the clock.
    private func tick(_ output: ByteWriter) -> SenderEnd? {
        streams.retry()
        openStreams()
        keepPositions()
        guard !isMissingNode else { return .interrupted }
        ticks += 1
        if ticks % TapProducer.noopSeconds == 0 {
            TapEncoder.appendNoop(opaque: messages.nextOpaque(), to: output)
        }
        return nil
    }

    // MARK: Backfill

    private var isBackfilled: Bool {
        guard let backfill else { return true }
        return backfill.allSatisfy { vBucket, end in
            guard let stream = streams[vBucket] else { return true }
            return stream.feed.position >= end
        }
    }
}

extension TapProducer: ChangeSender {
    func end() {
        clock.stop()
        streams.end()
    }

    func revoke(_ output: ByteWriter) -> Bool { false }

    func handleEvents(_ output: ByteWriter) -> SenderEnd? {
        clock.recordTurn()
        if owesBeginning {
            owesBeginning = false
            TapEncoder.append(.beginBackfill, opaque: messages.nextOpaque(), to: output)
        }
        var isTickDue = false
        for event in streams.events.drain() {
            switch event {
            case .news(let vBucket, let ticket): streams.note(vBucket, ticket: ticket)
            case .tick: isTickDue = true
            }
        }
        if isTickDue, let end = tick(output) { return end }
        guard !isInterrupted else { return .interrupted }
        guard !streams.bucket.isRetired else { return .retired }
        guard !isEmptyDump else {
            TapEncoder.append(.closeStream, opaque: messages.nextOpaque(), to: output)
            return .finished
        }
        guard backfill != nil, isBackfilled else { return nil }
        TapEncoder.append(.endBackfill, opaque: messages.nextOpaque(), to: output)
        guard !request.flags.contains(.dump) else {
            TapEncoder.append(.closeStream, opaque: messages.nextOpaque(), to: output)
            return .finished
        }
        backfill = nil
        return nil
    }

    func pump(_ output: ByteWriter) -> Bool {
        guard messages.openMarks.load(ordering: .relaxed) < TapProducer.marksMax else {
            return false
        }
        let hasMore = streams.pump(output) { recordEnd($0) }
        // The end of the backfill is sent in the turn after it was reached.
        return hasMore || backfill != nil && isBackfilled && output.count > 0
    }
}
