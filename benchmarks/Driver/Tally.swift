internal import Histogram

/// Counts and latencies since the last reset.
struct Tally: Sendable {
    /// Nanoseconds, from when a request was (or in an open loop: should have been) sent.
    var reads = Tally.histogram()
    var writes = Tally.histogram()
    var replies: UInt64 = 0
    var hits: UInt64 = 0
    var misses: UInt64 = 0
    var stored: UInt64 = 0
    /// Answers other than success and "not found", by status.
    var errors: [UInt16: UInt64] = [:]
    /// Hits whose value has another size than the workload writes.
    var wrongSizes: UInt64 = 0
    /// Through the client library: failed operations by kind, after all attempts.
    var failures: [String: UInt64] = [:]
    /// One error message of each kind.
    var examples: [String: String] = [:]
    /// Through the client library, open loop: operations due but not started, as too many were in
    /// flight.
    var notBegun: UInt64 = 0

    /// Three digits are exact to a thousandth; the limit of a minute is longer than any wait.
    private static func histogram() -> Histogram<UInt64> {
        Histogram(
            lowestDiscernibleValue: 100,
            highestTrackableValue: 60_000_000_000,
            numberOfSignificantValueDigits: .three
        )
    }

    var all: Histogram<UInt64> {
        var sum = reads
        sum.add(writes)
        return sum
    }

    mutating func recordReads(_ nanoseconds: UInt64, count: UInt64) {
        reads.record(min(nanoseconds, 60_000_000_000), count: count)
    }

    mutating func recordWrites(_ nanoseconds: UInt64, count: UInt64) {
        writes.record(min(nanoseconds, 60_000_000_000), count: count)
    }
}
