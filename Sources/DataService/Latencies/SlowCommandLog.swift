internal import Bytes
internal import Seams
internal import Vocabulary

/// Decides which slow commands are logged: a number in each second; those beyond are counted.
///
/// An overloaded node must not fill its disk with them.
struct SlowCommandBudget {
    static let perSecond = 10
    private static let secondNanoseconds: UInt64 = 1_000_000_000

    private var second: UInt64 = 0
    private var logged = 0
    private var omitted = 0

    /// Whether to log a slow command now.
    mutating func admit(at nanoseconds: UInt64) -> Bool {
        let now = nanoseconds / Self.secondNanoseconds
        if now != second { (second, logged) = (now, 0) }
        guard logged < Self.perSecond else {
            omitted += 1
            return false
        }
        logged += 1
        return true
    }

    /// The number of commands that were not logged since the last call.
    mutating func removeOmitted() -> Int { exchange(&omitted, with: 0) }
}

/// Logs commands that took longer than a threshold, with what they waited for.
package final class SlowCommandLog: Sendable {
    /// The threshold in nanoseconds; read on every turn.
    private let threshold = SharedWord.allocated(500_000_000)
    private let budget = Guarded(SlowCommandBudget())
    private let trace: any Trace

    init(_ trace: any Trace) { self.trace = trace }

    deinit { threshold.address.deallocate() }

    /// Commands that take so long are slow; 500 ms at first.
    package var thresholdNanoseconds: UInt64 {
        get { threshold.load() }
        set { threshold.store(newValue) }
    }

    /// Logs a slow command that waited.
    ///
    /// - Parameters:
    ///   - wait: The command, after its last phase.
    ///   - bucket: Its bucket.
    ///   - now: When it was answered, in monotonic nanoseconds.
    func note(_ wait: RequestWait, of bucket: OpenBucket, at now: UInt64) {
        guard admits(1, of: bucket, at: now) else { return }
        let place = wait.vBucket.map { ", \($0)" } ?? ""
        let name = CommandKind.all[Int(wait.kind)].name
        let milliseconds = (now - wait.start) / 1_000_000
        trace.warning(
            "slow",
            bucket: bucket.name,
            "\(name) in bucket \(bucket.name)\(place) took \(milliseconds) ms\(wait.phases)"
        )
    }

    /// Logs slow commands that ended together and did not wait.
    ///
    /// - Parameters:
    ///   - kind: Their number in `CommandKind`.
    ///   - count: How many they are.
    ///   - bucket: Their bucket.
    ///   - nanoseconds: How long they took.
    ///   - now: When they were answered, in monotonic nanoseconds.
    func note(
        _ kind: Int,
        count: UInt64,
        of bucket: OpenBucket,
        took nanoseconds: UInt64,
        at now: UInt64
    ) {
        guard admits(count, of: bucket, at: now) else { return }
        let name = CommandKind.all[kind].name
        let milliseconds = nanoseconds / 1_000_000
        trace.warning(
            "slow",
            bucket: bucket.name,
            "\(name) in bucket \(bucket.name), \(count) of one read, took \(milliseconds) ms: "
                + "execution \(milliseconds)"
        )
    }

    private func admits(_ count: UInt64, of bucket: OpenBucket, at now: UInt64) -> Bool {
        bucket.counters.countShared(.slowOperations, by: Int(clamping: count))
        return budget.withLock { $0.admit(at: now) }
    }

    /// Logs how many slow commands were not logged; called each second.
    func logOmitted() {
        let omitted = budget.withLock { $0.removeOmitted() }
        guard omitted > 0 else { return }
        trace.warning("slow", "\(omitted) more slow commands were not logged")
    }
}
