internal import Bytes

/// Requests another node's samples of one bucket.
struct HistoryCall: PeerPayload, Hashable {
    var bucket: String
    var zoom: StatisticsSampler.Zoom

    init(bucket: String, zoom: StatisticsSampler.Zoom) {
        self.bucket = bucket
        self.zoom = zoom
    }

    init?(_ reader: inout ByteReader) {
        guard let bucket = reader.text(),
            let zoom = reader.text().flatMap(StatisticsSampler.Zoom.init(rawValue:))
        else { return nil }
        self.init(bucket: bucket, zoom: zoom)
    }

    func append(to writer: ByteWriter) {
        writer.append(counted: bucket)
        writer.append(counted: zoom.rawValue)
    }
}

/// The encoding of a series: a run of equal samples is one sample and its count.
extension StatisticsSampler.Series: PeerPayload {
    /// More samples than any ring keeps: a longer series is malformed.
    private static let countMax = 4_096
    private static let statisticsMax = 256

    init?(_ reader: inout ByteReader) {
        guard let interval = reader.leb128(), let newest = reader.leb128(),
            let statistics = reader.leb(Int.self), statistics <= Self.statisticsMax,
            let runs = reader.leb(Int.self), runs <= Self.countMax
        else { return nil }
        var samples: [SIMD32<Float>] = []
        for _ in 0..<runs {
            guard let count = reader.leb(Int.self), count > 0,
                count <= Self.countMax - samples.count
            else { return nil }
            var sample = SIMD32<Float>.zero
            for place in 0..<statistics {
                guard let bits = reader.bigEndian(UInt32.self) else { return nil }
                // A newer node may send more statistics, which come last.
                guard let statistic = SampledStatistic(rawValue: place) else { continue }
                sample[statistic.rawValue] = Float(bitPattern: bits)
            }
            samples += Array(repeating: sample, count: count)
        }
        self.init(intervalMilliseconds: interval, newestMilliseconds: newest, samples: samples)
    }

    func append(to writer: ByteWriter) {
        var runs: [(sample: SIMD32<Float>, count: Int)] = []
        for sample in samples {
            if let last = runs.last, last.sample == sample {
                runs[runs.count - 1].count += 1
            } else {
                runs.append((sample, 1))
            }
        }
        writer.append(leb: intervalMilliseconds)
        writer.append(leb: newestMilliseconds)
        writer.append(leb: SampledStatistic.allCases.count)
        writer.append(leb: runs.count)
        for run in runs {
            writer.append(leb: run.count)
            for statistic in SampledStatistic.allCases {
                writer.append(bigEndian: run.sample[statistic.rawValue].bitPattern)
            }
        }
    }
}
