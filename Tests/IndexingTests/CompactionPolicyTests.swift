import Indexing
import Testing

@Suite struct CompactionPolicyTests {
    private typealias Candidate = CompactionPolicy.Candidate

    private static func threshold(_ percent: Int?, _ bytes: UInt64?) -> CompactionPolicy.Threshold {
        var threshold = CompactionPolicy.Threshold()
        (threshold.percent, threshold.bytes) = (percent, bytes)
        return threshold
    }

    @Test func eitherThresholdMakesAnIndexDue() {
        let file = Candidate(fileBytes: 10 << 20, usedBytes: 7 << 20)
        let cases: [(percent: Int?, bytes: UInt64?, isDue: Bool)] = [
            (30, nil, true), (31, nil, false), (nil, 3 << 20, true), (nil, 4 << 20, false),
            (31, 3 << 20, true), (nil, nil, false),
        ]
        for value in cases {
            let next = CompactionPolicy.next([file], Self.threshold(value.percent, value.bytes))
            #expect(next == (value.isDue ? 0 : nil), "\(value)")
        }
    }

    @Test func indexWithMostUnusedBytesIsFirst() {
        let files = [
            Candidate(fileBytes: 10 << 20, usedBytes: 1 << 20),
            Candidate(fileBytes: 100 << 20, usedBytes: 60 << 20),
            Candidate(fileBytes: 100 << 20, usedBytes: 90 << 20),
        ]
        #expect(CompactionPolicy.next(files, CompactionPolicy.Threshold()) == 1)
    }

    @Test func smallFilesAndIndexesBeingBuiltAreNotCompacted() {
        let files = [
            Candidate(fileBytes: 1_000_000, usedBytes: 0),
            Candidate(fileBytes: 10 << 20, usedBytes: 0, isAtRest: false),
            Candidate(fileBytes: 0, usedBytes: 0),
        ]
        #expect(CompactionPolicy.next(files, CompactionPolicy.Threshold()) == nil)
    }

    @Test func nothingIsCompactedBesideARunningCompaction() {
        let files = [
            Candidate(fileBytes: 10 << 20, usedBytes: 0),
            Candidate(fileBytes: 10 << 20, usedBytes: 0, isCompacting: true),
        ]
        #expect(CompactionPolicy.next(files, CompactionPolicy.Threshold()) == nil)
    }
}
