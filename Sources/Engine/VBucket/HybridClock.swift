package import Vocabulary

/// CAS from the time of day, never backwards.
///
/// A hybrid logical clock (Kulkarni et al. 2014), with the same bits as kv_engine's.
///
/// The upper 48 bits follow the wall clock in steps of 65 microseconds, the lower 16 count within a
/// step or while the clock stands or was set back.
package struct HybridClock: Sendable {
    package private(set) var last: CAS

    package init(after last: CAS) {
        self.last = last
    }

    @inline(__always)
    package mutating func next(_ wallNanoseconds: UInt64) -> CAS {
        last = CAS(max(wallNanoseconds & ~0xffff, last.value &+ 1))
        return last
    }

    /// The value that `next` would return, and whether that only counts: the wall clock is not ahead
    /// of the last value.
    package func peek(_ wallNanoseconds: UInt64) -> (cas: CAS, isLogical: Bool) {
        var copy = self
        let isLogical = wallNanoseconds & ~0xffff <= last.value
        return (copy.next(wallNanoseconds), isLogical)
    }

    /// Makes all later CAS values greater than `cas`.
    package mutating func advance(past cas: CAS) {
        if cas > last { last = cas }
    }
}
