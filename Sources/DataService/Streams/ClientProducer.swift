internal import Bytes
internal import Replication
internal import Seams
internal import Vocabulary
internal import Wire

/// Sends the visible changes of a bucket's active copies to one client, as it requests them (DCP).
///
/// A client that does not read for `Limits.backfillStallMilliseconds` loses its connection, because
/// a scan keeps file space.
final class ClientProducer {
    /// The no-ops that the client has to answer.
    private struct Noop {
        var pulse: NoopPulse
        var opaque: UInt32 = ClientProducer.firstNoopOpaque
    }

    /// Clients number their streams from zero, often by vBucket.
    private static let firstNoopOpaque: UInt32 = 0x6e6f_0000

    let streams: ClientStreamSet
    private(set) var settings: ConsumerSettings
    private let service: DocumentService
    private let clock: ClientProducerClock
    private var noop: Noop?
    private var loadingWaits = LoadingWaits()

    init(
        name: String,
        _ bucket: OpenBucket,
        settings: ConsumerSettings,
        port: any ConnectionPort,
        service: DocumentService
    ) {
        self.settings = settings
        self.service = service
        let streams = ClientStreamSet(name: name, bucket, port: port, service)
        self.streams = streams
        clock = ClientProducerClock(service, port: port) { [events = streams.events] in
            events.put(.tick)
        }
        bucket.traffic.clients.add(streams.entry)
        clock.start()
    }

    var bucket: OpenBucket { streams.bucket }

    private var now: UInt64 { service.environment.time.monotonicNanoseconds() }

    // MARK: Requests

    /// Applies a DCP_CONTROL.
    ///
    /// - Throws: `ConsumerRefusal` as `ConsumerSettings.apply` does.
    func apply(_ name: String, _ value: String) throws(ConsumerRefusal) {
        try settings.apply(name, value)
        streams.setBuffer(settings.bufferBytes)
        streams.compressesValues = settings.compressesValues
        guard settings.isNoopEnabled else {
            noop = nil
            return
        }
        let interval = settings.noopSeconds * 1_000_000_000
        if noop == nil { noop = Noop(pulse: NoopPulse(intervalNanoseconds: interval, now: now)) }
        noop?.pulse.intervalNanoseconds = interval
    }

    /// Opens the feed of a stream that the client requested, in the client's format.
    func open(
        _ vBucket: VBucketID,
        opaque: UInt32,
        _ request: DCPStreamRequest
    ) -> FeedOpening {
        let format = ClientFormat(settings)
        let encoder = format.encoder(vBucket, opaque: opaque)
        return streams.open(vBucket, request) { item, output in
            format.append(item, encoder, to: output)
        }
    }

    /// How long the next stream request may wait for the loading of its vBucket, in nanoseconds; nil
    /// if it has to be refused.
    func timeToWaitForLoading() -> UInt64? { loadingWaits.timeLeft(at: now) }

    /// The input is not read for now, and an answer to the last no-op may be in it.
    func postponeNoopEnd() { noop?.pulse.postponeEnd(now) }

    /// Whether a message is the answer to the last no-op.
    func answersNoop(_ opaque: UInt32) -> Bool {
        guard noop?.opaque == opaque else { return false }
        noop?.pulse.answered()
        return true
    }
}

extension ClientProducer: ChangeSender {
    func end() {
        clock.stop()
        bucket.traffic.clients.remove(streams.entry)
        streams.end()
    }

    func revoke(_ output: ByteWriter) -> Bool {
        streams.end(.privilegesLost, output)
        return true
    }

    func handleEvents(_ output: ByteWriter) -> SenderEnd? {
        clock.recordTurn()
        for event in streams.events.drain() {
            switch event {
            case .news(let vBucket, let ticket): streams.note(vBucket, ticket: ticket)
            case .tick:
                streams.retry()
                guard sendNoop(output) else { return .silent }
                guard bucket.isRetired else { continue }
                // Its streams have ended, each with a message. A flushed bucket has a successor,
                // to which this producer does not belong: the client connects again.
                if streams.isEmpty { return .retired }
                // Only ends follow, and no acknowledgement may arrive: a deleted bucket is no longer
                // the connection's.
                streams.setBuffer(nil)
            }
        }
        return nil
    }

    func pump(_ output: ByteWriter) -> Bool { streams.pump(output) }

    /// Sends a no-op if one is due.
    ///
    /// - Returns: False if the last one was not answered for a whole interval.
    private func sendNoop(_ output: ByteWriter) -> Bool {
        guard var noop else { return true }
        defer { self.noop = noop }
        switch noop.pulse.step(now) {
        case .wait: return true
        case .giveUp: return false
        case .send:
            noop.opaque &+= 1
            DCPEncoder(vBucket: VBucketID(0), opaque: noop.opaque).appendNoop(to: output)
            return true
        }
    }
}

/// Bounds how long a connection's stream requests wait for vBuckets that are being loaded.
///
/// A waiting request blocks all later ones, and clients give each of them a timeout of its own. So
/// the requests that arrive while one waits share its time. After that time requests are refused for
/// a while, in which the blocked ones are answered.
package struct LoadingWaits: Hashable, Sendable {
    /// Clients wait longer for an answer: ten seconds and more.
    package static let waitNanoseconds: UInt64 = 5_000_000_000
    /// A thousand requests are refused in much less.
    package static let refusalNanoseconds: UInt64 = 1_000_000_000

    /// When the first of the requests that share their time began to wait.
    private var start: UInt64?

    package init() {}

    /// How long a request that begins to wait at `now` may wait; nil if it has to be refused.
    package mutating func timeLeft(at now: UInt64) -> UInt64? {
        guard let start,
            now &- start < LoadingWaits.waitNanoseconds + LoadingWaits.refusalNanoseconds
        else {
            start = now
            return LoadingWaits.waitNanoseconds
        }
        let age = now &- start
        return age < LoadingWaits.waitNanoseconds ? LoadingWaits.waitNanoseconds - age : nil
    }
}
