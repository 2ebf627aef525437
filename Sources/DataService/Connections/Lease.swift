internal import Bytes
internal import Seams

/// The time until which this node may serve, in a word that reactors read.
///
/// `.max` means that the lease never ends, since no other node could take over; checking it costs
/// one load.
final class Lease: Sendable {
    private let word = SharedWord.allocated(.max)

    deinit { word.address.deallocate() }

    /// The end of the lease in monotonic nanoseconds.
    @inline(__always)
    var end: UInt64 {
        get { word.load() }
        set { word.store(newValue) }
    }

    @inline(__always)
    func holds(_ time: any TimeSource) -> Bool {
        let end = end
        return end == .max || time.monotonicNanoseconds() < end
    }
}

extension DocumentService {
    /// Sets the end of the lease; reactors read it at the start of a turn, and again before they
    /// send the turn's answers.
    package func setLease(endNanoseconds: UInt64) { lease.end = endNanoseconds }

    /// Whether this node may answer for its active copies, by its own clock.
    package var holdsLease: Bool { lease.holds(environment.time) }
}

extension Connection {
    /// Checks the lease once for all requests of the turn; `endTurn` checks it again.
    @inline(never)
    func beginLeasedTurn() {
        isWithoutLease = !service.lease.holds(service.environment.time)
        isBoundByLease = false
    }
}
