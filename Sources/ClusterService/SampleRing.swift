/// The newest samples of one interval, equal neighbours stored once.
///
/// A bucket that nobody uses has the same sample every second; stored as a run it costs one sample
/// for a year, so that a thousand idle buckets stay cheap.
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

    /// Samples of the finer interval that make the next one of this.
    private var sum = SIMD32<Float>.zero
    private var summed = 0

    init(intervalSeconds: Int, capacity: Int) {
        self.intervalSeconds = intervalSeconds
        self.capacity = capacity
    }

    /// Takes the sample of one second; keeps the mean of every `intervalSeconds` of them.
    mutating func add(_ sample: SIMD32<Float>, atMilliseconds milliseconds: UInt64) {
        sum += sample
        summed += 1
        guard summed == intervalSeconds else { return }
        // The mean of equal numbers must be that number, or idle buckets would make new runs.
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

    /// Oldest first.
    var samples: [SIMD32<Float>] {
        runs.flatMap { Array(repeating: $0.sample, count: $0.count) }
    }
}
