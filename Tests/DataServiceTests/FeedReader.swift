import Bytes
import DataService
import Engine
import TestWorld
import Testing
import Vocabulary
import Wire

/// The items that a consumer received.
enum FeedEvent: Equatable {
    case snapshot(UInt64, UInt64)
    case change(String, UInt64)
    case deletion(String, UInt64)
    case prepare(UInt64)
    case abort(UInt64)
    case advanced(UInt64)
    case purged
    case end(DCPStreamEnd)

    /// The seqno of an encoded change.
    var seqno: UInt64? {
        switch self {
        case .change(_, let seqno), .deletion(_, let seqno), .prepare(let seqno),
            .abort(let seqno):
            seqno
        default: nil
        }
    }
}

/// A consumer of one vBucket's feed that checks the invariants of every feed while it reads.
final class FeedReader {
    static let forever = Seqno((1 << 48) - 1)

    let service: DocumentService
    private let woken = Guarded(0)
    private(set) var feed: VBucketFeed?
    private(set) var refusal: String?
    private(set) var events: [FeedEvent] = []
    /// Values by key; a tombstone has none.
    private(set) var documents: [String: [UInt8]] = [:]
    /// The end of the last snapshot, and the last seqno that was received or passed.
    private(set) var snapshot: (start: UInt64, end: UInt64)
    private(set) var last: UInt64
    private(set) var uuid = VBucketUUID(0)
    private(set) var isOver = false
    /// The bytes of the largest step so far.
    private(set) var stepMax = 0
    private let output = ByteWriter()

    init(
        _ bucket: OpenBucket,
        _ vBucket: UInt16,
        from start: UInt64 = 0,
        uuid: VBucketUUID = VBucketUUID(0),
        end: Seqno = FeedReader.forever,
        flags: DCPStreamRequest.Flags = [],
        isReplication: Bool = false,
        admits: @escaping FeedConsumer.Admission = { _ in true },
        _ service: DocumentService
    ) {
        self.service = service
        snapshot = (start, start)
        last = start
        let request = DCPStreamRequest(
            flags: flags,
            start: Seqno(start),
            end: end,
            uuid: uuid,
            snapshotStart: Seqno(start),
            snapshotEnd: Seqno(start)
        )
        let encode: FeedConsumer.Encode = { FeedReader.encode($0, $1) }
        let wake: @Sendable () -> Void = { [woken] in woken.withLock { $0 += 1 } }
        let consumer: FeedConsumer =
            isReplication
            ? .replication(admits: admits, encode: encode, wake: wake)
            : .visibleOnly(admits: admits, encode: encode, wake: wake)
        switch service.openFeed(of: VBucketID(vBucket), in: bucket, request, for: consumer) {
        case .opened(let feed, _, let log):
            self.feed = feed
            self.uuid = log.current.uuid
        case .rollBack(let seqno, _): refusal = "roll back to \(seqno.value)"
        case .outOfRange: refusal = "out of range"
        case .noVBucket: refusal = "no vBucket"
        case .notAdmitted: refusal = "not admitted"
        case .notLoaded: refusal = "not loaded"
        }
    }

    /// How many times the feed woke its consumer.
    var wakes: Int { woken.withLock { $0 } }

    func close() { feed?.close() }

    /// Reads until the feed has no work.
    func read(credit: Int = .max, steps: Int = .max) {
        var left = steps
        while let feed, !isOver, left > 0 {
            left -= 1
            let progress = feed.step(credit: credit, into: output)
            stepMax = max(stepMax, output.count)
            decode()
            if progress == .over { isOver = true }
            guard progress == .again else { return }
        }
    }

    // MARK: The format

    /// One line per item: a letter, numbers, a key and a value.
    private static func encode(_ item: FeedItem, _ output: ByteWriter) {
        func append(_ kind: UInt8, _ one: UInt64, _ other: UInt64 = 0) {
            output.append([kind])
            output.append(bigEndian: one)
            output.append(bigEndian: other)
        }
        func append(_ kind: UInt8, _ change: DCPChange) {
            append(kind, change.meta.seqno.value, UInt64(change.meta.isDeleted ? 1 : 0))
            output.append(bigEndian: UInt64(change.key.count))
            output.append(bigEndian: UInt64(change.value.count))
            output.append(change.key.bytes)
            output.append(change.value.bytes)
        }
        switch item {
        case .snapshot(let snapshot):
            append(0, snapshot.marker.start.value, snapshot.marker.end.value)
        case .change(let change): append(1, change)
        case .prepare(let change, _): append(2, change)
        case .abort(let abort): append(3, abort.seqno.value)
        case .advanced(let seqno): append(4, seqno.value)
        case .purged: append(5, 0)
        case .end(let reason): append(6, UInt64(reason.rawValue))
        }
    }

    private func decode() {
        let bytes = output.bytes
        output.removeAll()
        var place = 0
        func number() -> UInt64 {
            defer { place += 8 }
            return bytes[place..<place + 8].reduce(0) { $0 << 8 | UInt64($1) }
        }
        while place < bytes.count {
            let kind = bytes[place]
            place += 1
            let (one, other) = (number(), number())
            switch kind {
            case 0: check(.snapshot(one, other))
            case 1, 2:
                let (keyCount, valueCount) = (Int(number()), Int(number()))
                let key = String(decoding: bytes[place..<place + keyCount], as: UTF8.self)
                place += keyCount
                let value = Array(bytes[place..<place + valueCount])
                place += valueCount
                if kind == 2 {
                    check(.prepare(one))
                } else {
                    documents[key] = other == 1 ? nil : value
                    check(other == 1 ? .deletion(key, one) : .change(key, one))
                }
            case 3: check(.abort(one))
            case 4: check(.advanced(one))
            case 5: check(.purged)
            default: check(.end(DCPStreamEnd(rawValue: UInt32(one)) ?? .closed))
            }
        }
    }

    // MARK: Invariants of every feed

    private func check(_ event: FeedEvent) {
        events.append(event)
        switch event {
        case .snapshot(let start, let end):
            #expect(start == last && end > last && end >= snapshot.end)
            snapshot = (start, end)
        case .advanced(let seqno):
            #expect(seqno > last)
            last = seqno
        case .purged, .end: break
        default:
            let seqno = event.seqno ?? 0
            #expect(
                seqno > last && seqno <= snapshot.end,
                "changes are ordered and within a snapshot"
            )
            last = seqno
        }
    }
}
