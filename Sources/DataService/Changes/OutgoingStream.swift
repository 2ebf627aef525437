package import Bytes
internal import Vocabulary
package import Wire

/// A vBucket's feed to another node.
final class OutgoingStream: FeedStream {
    let address: NodeStreamAddress
    /// Whether the stream waits for the pacer's room: clients come first.
    var isWaiting = false
    /// Whether the step under way counts for the pacer.
    var isPaced = false
    /// Until everything through this seqno was sent, the receiver builds a copy that does not count
    /// yet.
    ///
    /// Nil if the receiver's copy counts.
    private let buildsThrough: Seqno?
    /// A change that was sent at a time and is not acknowledged yet; nil if there is none.
    private var awaited: (seqno: Seqno, since: UInt64)?

    init(_ address: NodeStreamAddress, _ feed: VBucketFeed, buildsThrough: Seqno?) {
        self.address = address
        self.buildsThrough = buildsThrough
        super.init(feed)
    }

    /// Whether the stream's changes may be delayed in favour of clients.
    var canWait: Bool { buildsThrough.map { feed.position < $0 } ?? false }

    /// Measures the time until the acknowledgement of the newest change that was sent, unless that of an
    /// earlier one is measured, or a copy is being built.
    ///
    /// - Parameter now: Reads the monotonic clock, which is needed once for each measurement.
    func recordSent(now: () -> UInt64) {
        guard awaited == nil, !canWait else { return }
        awaited = (feed.position, now())
    }

    /// The nanoseconds until the acknowledgement of the measured change; nil if this is none.
    func endWait(covered: Seqno, now: () -> UInt64) -> UInt64? {
        guard let awaited, awaited.seqno <= covered else { return nil }
        self.awaited = nil
        let now = now()
        return now - min(now, awaited.since)
    }
}

extension DCPEncoder {
    /// Appends an item of a feed in the format for other nodes.
    package func append(_ item: FeedItem, at address: NodeStreamAddress, to writer: ByteWriter) {
        switch item {
        case .change(let change): append(change, to: writer)
        case .prepare(let change, let level): append(prepare: change, level, to: writer)
        case .abort(let abort): append(abort, to: writer)
        case .snapshot(let snapshot):
            append(snapshot.marker, to: writer)
            if let purge = snapshot.purge {
                NodeStreamEncoder.append(purge, at: address, to: writer)
            }
            if let outstanding = snapshot.outstanding {
                NodeStreamEncoder.append(outstanding: outstanding, at: address, to: writer)
            }
        case .advanced(let seqno): append(advancedTo: seqno, to: writer)
        case .purged: append(DCPStreamEnd.rollback, to: writer)
        case .end(let reason): append(reason, to: writer)
        }
    }
}
