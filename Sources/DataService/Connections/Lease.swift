internal import Bytes
internal import Seams

/// Until when this node may serve: a promise of the others, kept in a word that reactors look at.
///
/// `.max` is a lease that never ends, where no other node could take over; it costs one load.
final class Lease: Sendable {
    private let word: SharedWord

    init() {
        let memory = UnsafeMutablePointer<UInt64>.allocate(capacity: 1)
        memory.initialize(to: .max)
        word = SharedWord(at: memory)
    }

    deinit { word.address.deallocate() }

    /// Monotonic nanoseconds.
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
    /// Says until when this node may serve; earlier than before is heeded from the next batch on.
    package func setLease(endNanoseconds: UInt64) { lease.end = endNanoseconds }

    /// Whether this node may answer for what it owns, by its own clock.
    package var holdsLease: Bool { lease.holds(environment.time) }
}

extension Connection {
    /// One look at the clock for all requests of the turn; `endTurn` takes the other.
    @inline(never)
    func beginLeasedTurn(_ time: any TimeSource) {
        isWithoutLease = !service.lease.holds(time)
        isBoundByLease = false
    }
}
