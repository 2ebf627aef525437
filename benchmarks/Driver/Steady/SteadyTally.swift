internal import DivanClient
internal import Histogram

/// The counts of a steady load: latencies, errors by kind, a timeline, and times without service.
struct SteadyTally: Sendable {
    /// A tenth of a second of the timeline.
    struct Slice: Sendable {
        var succeeded = 0
        var failed = 0
        /// Nanoseconds: the slowest success that ended here.
        var slowest: UInt64 = 0
    }

    static let sliceNanoseconds: UInt64 = 100_000_000

    let start: UInt64
    private(set) var reads: Histogram<UInt64>
    private(set) var writes: Histogram<UInt64>
    private(set) var errors: [ClientError.Code: Int] = [:]
    /// One error message of each kind.
    private(set) var examples: [ClientError.Code: String] = [:]
    private(set) var slices: [Slice] = []
    private(set) var succeeded = 0
    private(set) var failed = 0
    /// Reads that found no document, which is a success.
    private(set) var misses = 0
    /// Reads that found a value of another size than the workload writes.
    private(set) var wrongSizes = 0
    /// Nanoseconds: the longest time in which no operation at all succeeded.
    private(set) var gapMax: UInt64 = 0
    /// Nanoseconds: the longest time that one key could not be read, or written.
    private(set) var readOutageMax: UInt64 = 0
    private(set) var writeOutageMax: UInt64 = 0
    /// Keys that were not served for longer than a second at a time.
    private(set) var outagesOverASecond = 0
    /// When a key that had been unwritable for over a tenth of a second was last written again; on the
    /// machine's clock, so that a script can compare it with the time at which it killed a node.
    private(set) var writtenAgainAt: UInt64?
    private var lastSuccess: UInt64
    /// When the oldest failed operation since the last success of each key began; 0 for none.
    private var readBlocked: [UInt64]
    private var writeBlocked: [UInt64]

    init(keys: Int, start: UInt64) {
        self.start = start
        reads = SteadyTally.histogram()
        writes = SteadyTally.histogram()
        lastSuccess = start
        readBlocked = Array(repeating: 0, count: keys)
        writeBlocked = Array(repeating: 0, count: keys)
    }

    /// Of nanoseconds, up to a minute.
    static func histogram() -> Histogram<UInt64> {
        Histogram(
            lowestDiscernibleValue: 100,
            highestTrackableValue: longest,
            numberOfSignificantValueDigits: .three
        )
    }

    private static let longest: UInt64 = 60_000_000_000

    /// Keys whose last finished write failed.
    var unwrittenKeys: Int { writeBlocked.count { $0 > 0 } }

    /// The result of a read; `note` counts it.
    mutating func look(at result: Result<Document, ClientError>, bytes: Int) {
        switch result {
        case .success(let document): if document.value.count != bytes { wrongSizes += 1 }
        case .failure(let error): if error.code == .notFound { misses += 1 }
        }
    }

    /// Counts the end of an operation on `key` that was due at `due`.
    mutating func note(key: Int, isWrite: Bool, due: UInt64, at now: UInt64, _ error: ClientError?)
    {
        let place = Int((now - start) / SteadyTally.sliceNanoseconds)
        while slices.count <= place { slices.append(Slice()) }
        guard let error else { return success(key, isWrite, due, now, place) }
        failed += 1
        slices[place].failed += 1
        errors[error.code, default: 0] += 1
        if examples[error.code] == nil { examples[error.code] = error.description }
        if isWrite {
            if writeBlocked[key] == 0 { writeBlocked[key] = due }
        } else {
            if readBlocked[key] == 0 { readBlocked[key] = due }
        }
    }

    private mutating func success(
        _ key: Int,
        _ isWrite: Bool,
        _ due: UInt64,
        _ now: UInt64,
        _ place: Int
    ) {
        let took = min(now - due, SteadyTally.longest)
        succeeded += 1
        slices[place].succeeded += 1
        slices[place].slowest = max(slices[place].slowest, took)
        gapMax = max(gapMax, now - lastSuccess)
        lastSuccess = now
        let blocked = isWrite ? writeBlocked[key] : readBlocked[key]
        let outage = now - (blocked == 0 ? due : min(blocked, due))
        if outage > 1_000_000_000 { outagesOverASecond += 1 }
        if isWrite {
            writes.record(took)
            writeBlocked[key] = 0
            writeOutageMax = max(writeOutageMax, outage)
            if outage > SteadyTally.sliceNanoseconds { writtenAgainAt = now }
        } else {
            reads.record(took)
            readBlocked[key] = 0
            readOutageMax = max(readOutageMax, outage)
        }
    }

    /// Ends the count: a key that is not served now was not served until now.
    mutating func end(at now: UInt64) {
        gapMax = max(gapMax, now - lastSuccess)
        for blocked in readBlocked where blocked > 0 {
            readOutageMax = max(readOutageMax, now - blocked)
        }
        for blocked in writeBlocked where blocked > 0 {
            writeOutageMax = max(writeOutageMax, now - blocked)
        }
    }
}
