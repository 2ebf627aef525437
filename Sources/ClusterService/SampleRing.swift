/// The newest samples of one interval, equal neighbours stored once.
///
/// An unused bucket has the same sample every second; stored as a run it takes one sample for a
/// year, so a thousand idle buckets take little memory.
///
/// - The counts of all runs sum up to `count`, never above `capacity`.
struct SampleRing {
    private struct Run {
        let sample: SIMD32<Float>
        var count: Int
    }

    let intervalSeconds: Int
    let capacity: Int
    private var runs: [Run] = []
    private(set) var count = 0
    /// When the newest sample was taken, in milliseconds since 1970.
    private(set) var newestMilliseconds: UInt64 = 0

    /// Samples that will be averaged into the next one.
    private var sum = SIMD32<Float>.zero
    private var summed = 0

    init(intervalSeconds: Int, capacity: Int) {
        self.intervalSeconds = intervalSeconds
        self.capacity = capacity
    }

    /// Adds the sample of one second; stores the mean of every `intervalSeconds` samples.
    mutating func add(_ sample: SIMD32<Float>, atMilliseconds milliseconds: UInt64) {
        sum += sample
        summed += 1
        guard summed == intervalSeconds else { return }
        // The mean of equal numbers must be exactly that number, or idle buckets would start new
        // runs.
        let mean = intervalSeconds == 1 ? sample : sum / Float(summed)
        sum = .zero
        summed = 0
        newestMilliseconds = milliseconds
        if let last = runs.last, last.sample == mean {
            runs[runs.count - 1].count += 1
        } else {
            runs.append(Run(sample: mean, count: 1))
        }
        count += 1
        guard count > capacity else { return }
        count -= 1
        runs[0].count -= 1
        if runs[0].count == 0 { runs.removeFirst() }
    }

    var newest: SIMD32<Float>? { runs.last?.sample }

    /// All samples, oldest first.
    var samples: [SIMD32<Float>] {
        runs.flatMap { Array(repeating: $0.sample, count: $0.count) }
    }
}
