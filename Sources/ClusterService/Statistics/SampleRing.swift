/// The newest samples of one interval, equal neighbours stored once.
///
/// An unused bucket has the same sample every second; stored as a run it takes one sample for a
/// year, so a thousand idle buckets take little memory.
///
/// - The counts of all runs sum up to `count`, never above `capacity`.
struct SampleRing {
    let intervalSeconds: Int
    let capacity: Int
    /// The sample of each run, one after the other, and how many equal samples it has.
    private var values: [Float] = []
    private var counts: [Int] = []
    private(set) var count = 0
    /// When the newest sample was taken, in milliseconds since 1970.
    private(set) var newestMilliseconds: UInt64 = 0

    /// Samples that will be averaged into the next one.
    private var sum: [Float] = []
    private var summed = 0

    init(intervalSeconds: Int, capacity: Int) {
        self.intervalSeconds = intervalSeconds
        self.capacity = capacity
    }

    /// Adds the sample of one second; stores the mean of every `intervalSeconds` samples.
    mutating func add(_ sample: [Float], atMilliseconds milliseconds: UInt64) {
        sum = summed == 0 ? sample : zip(sum, sample).map { $0 + $1 }
        summed += 1
        guard summed == intervalSeconds else { return }
        // The mean of equal numbers must be exactly that number, or idle buckets would start new
        // runs.
        let mean = intervalSeconds == 1 ? sample : sum.map { $0 / Float(summed) }
        summed = 0
        newestMilliseconds = milliseconds
        if newest == mean {
            counts[counts.count - 1] += 1
        } else {
            values += mean
            counts.append(1)
        }
        count += 1
        guard count > capacity else { return }
        count -= 1
        counts[0] -= 1
        if counts[0] == 0 {
            values.removeFirst(mean.count)
            counts.removeFirst()
        }
    }

    var newest: [Float]? { counts.isEmpty ? nil : sample(ofRun: counts.count - 1) }

    /// All samples, oldest first.
    var samples: [[Float]] {
        counts.enumerated().flatMap { repeatElement(sample(ofRun: $0.offset), count: $0.element) }
    }

    private func sample(ofRun run: Int) -> [Float] {
        let width = values.count / counts.count
        return Array(values[run * width..<(run + 1) * width])
    }
}
