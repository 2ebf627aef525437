internal import Bytes
internal import Engine
internal import Persistence
internal import Replication
internal import Seams
internal import Vocabulary
internal import Wire

/// A lane's result for a feed.
enum FeedResult: Sendable {
    case opened(VBucketScan)
    case slice(FeedSlice)
    case failed
}

/// A part of a scan, encoded on a lane.
struct FeedSlice: Sendable {
    var bytes: [UInt8] = []
    /// The seqno of the last change in it; nil if it has none.
    var last: Seqno?
    var isEnded = false
}

/// Holds a lane's result for a feed.
///
/// One is enough, since a feed has at most one read outstanding.
final class FeedInbox: Sendable {
    private let result = Guarded<FeedResult?>(nil)

    var isFull: Bool { result.withLock { $0 != nil } }

    func put(_ new: FeedResult) { result.withLock { $0 = new } }

    func remove() -> FeedResult? {
        result.withLock { exchange(&$0, with: nil) }
    }
}

/// Reads from disk, on a lane that may block.
extension VBucketFeed {
    func openScan(after seqno: Seqno) {
        let id = place.id
        guard let file = bucket.disk?.file(of: id) else { return machine.scanFailed() }
        onLane { _ throws(StorageError) in .opened(try file.scan(id, after: seqno)) }
    }

    func readDisk(_ bytes: Int, _ last: Seqno) {
        guard let scan = source.scan else { return machine.scanFailed() }
        let reading = Reading(
            scan: scan,
            vBucket: place.vBucket,
            hash: service.hash,
            consumer: consumer
        )
        onLane { scratch throws(StorageError) in
            .slice(try reading.slice(bytesMax: bytes, last: last, scratch))
        }
    }

    private func onLane(
        _ read: @escaping @Sendable (ByteWriter) throws(StorageError) -> FeedResult
    ) {
        isReading = true
        let (worker, trace, id) = (service.lanes.auxIO, service.environment.trace, place.id)
        let (inbox, wake) = (inbox, consumer.wake)
        worker.lane.post {
            do throws(StorageError) {
                inbox.put(try read(worker.context.scratch))
            } catch {
                // A copy that was dropped during the read is no error.
                if error.code != .gone {
                    trace.error("feed", "Reading \(id) from disk failed: \(error.description)")
                }
                inbox.put(.failed)
            }
            wake()
        }
    }

    func handle(_ result: FeedResult, _ output: ByteWriter) {
        isReading = false
        recordMove()
        switch result {
        case .opened(let scan):
            guard place.vBucket.withCore({ $0.isReadableOnDisk(through: scan.end) }) else {
                // Meanwhile a commit was made inside a snapshot that this replica receives.
                return machine.opened(.unpersisted(scan.end))
            }
            source.scan = scan
            let disk = ChangeStream.Source.disk(through: scan.end, visible: scan.lastDocument)
            machine.opened(scan.isComplete || consumer.ignoresPurges ? disk : .purged)
        case .slice(let slice):
            output.append(slice.bytes)
            machine.sent(through: slice.last, isEnded: slice.isEnded)
        case .failed: machine.scanFailed()
        }
    }

    /// The inputs with which a lane continues a scan without the feed.
    private struct Reading: Sendable {
        let scan: VBucketScan
        let vBucket: VBucket
        let hash: KeyHash
        let consumer: FeedConsumer

        func slice(
            bytesMax: Int,
            last: Seqno,
            _ scratch: ByteWriter
        ) throws(StorageError) -> FeedSlice {
            scratch.removeAll(keepingAtMost: 1 << 20)
            var slice = FeedSlice()
            let (encode, isVisibleOnly) = (consumer.encode, consumer.mode == .visibleOnly)
            let progress = try scan.readSlice(
                bytesMax: bytesMax,
                isNeeded: { key, seqno in
                    vBucket.withCore {
                        $0.isNeeded(key, hash: hash(key), seqno: seqno, through: scan.end)
                    }
                },
                prepare: { prepare in
                    guard prepare.meta.seqno <= last, !isVisibleOnly else { return }
                    FeedItem.withPrepare(prepare) { encode($0, scratch) }
                    slice.last = prepare.meta.seqno
                },
                visit: { meta, key, value in
                    guard meta.seqno <= last else { return }
                    encode(.change(DCPChange(meta: meta, key: key, value: value)), scratch)
                    slice.last = meta.seqno
                }
            )
            slice.isEnded = progress == .ended
            slice.bytes = scratch.bytes
            return slice
        }
    }
}

extension FeedItem {
    fileprivate static func withPrepare(_ prepare: StoredPrepare, _ body: (FeedItem) -> Void) {
        prepare.key.withUnsafeBytes { key in
            prepare.value.withUnsafeBytes { value in
                let change = DCPChange(
                    meta: prepare.meta,
                    key: ByteView(key),
                    value: ByteView(value)
                )
                body(.prepare(change, prepare.level))
            }
        }
    }
}
