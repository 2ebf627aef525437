import Bytes
import ClusterService
import Orchestration
import Testing
import Vocabulary

@Suite struct SamplerTests {
    let world = World()
    let plane = RecordingPlane()

    func service() async throws -> AdministrationService {
        let service = try world.service(plane)
        service.applier.openBuckets()
        let form = FormParameters([
            ("port", "SAME"), ("username", "Administrator"), ("password", "password"),
        ])
        try await service.start(host: "127.0.0.1", ports: NodePorts(admin: 1, data: 2))
        plane.record.withLock { $0.statistics["b"] = BucketStatistics() }
        _ = await Result(of: try await service.settings.initialise(form))
        _ = await Result(
            of: try await service.buckets.create(
                FormParameters([("name", "b"), ("ramQuotaMB", "100")])
            )
        )
        return service
    }

    @Test func countersBecomeRatesAndGaugesStay() async throws {
        let service = try await service()
        for second in 1...5 {
            plane.record.withLock {
                $0.statistics["b"]?[.ops] += UInt64(second) * 100
                $0.statistics["b"]?.copies.add(0, items: UInt64(second), .active)
            }
            world.passSecond()
        }
        let series = try #require(service.statistics.sampler.series(ofBucket: "b", .minute))
        #expect(series.values(of: .ops) == [0, 100, 200, 300, 400, 500])
        #expect(series.values(of: .items) == [0, 1, 2, 3, 4, 5])
        #expect(service.statistics.sampler.newest(.ops, ofBucket: "b") == 500)
        let stamps = series.timestamps
        #expect(zip(stamps, stamps.dropFirst()).allSatisfy { $1 - $0 == 1_000 })
    }

    @Test func manyBucketsAreReadInTurnAndRepeatTheirSamples() async throws {
        let service = try await service()
        let names = (1...40).map { "c\($0)" }
        _ = await Result(
            of: try await service.settings.change(FormParameters([("memoryQuota", "4500")]))
        )
        for name in names {
            plane.record.withLock { $0.statistics[name] = BucketStatistics() }
            let form = FormParameters([("name", name), ("ramQuotaMB", "100")])
            _ = await Result(of: try await service.buckets.create(form))
        }
        for _ in 1...6 {
            plane.record.withLock { record in
                for name in names + ["b"] { record.statistics[name]?[.ops] += 30 }
            }
            world.passSecond()
        }
        for name in names + ["b"] {
            let series = try #require(
                service.statistics.sampler.series(ofBucket: name, .minute),
                "\(name)"
            )
            #expect(series.count >= 7, "\(name)")
            #expect(series.values(of: .ops).suffix(3) == [30, 30, 30], "\(name)")
        }
    }

    @Test func viewsAreSampledWithTheirQueriesPerSecond() async throws {
        let service = try await service()
        let reads = Guarded(0)
        let views = Guarded<ViewStatistics?>(nil)
        service.statistics.readViews {
            reads.withLock { $0 += 1 }
            return views.withLock { $0 }
        }
        world.passSecond()
        #expect(reads.withLock { $0 } > 0)
        for second in 1...3 {
            var bucket = ViewStatistics.Bucket(name: "b")
            bucket.queries = UInt64(second) * 5
            (bucket.diskUsed, bucket.dataUsed) = (8_192, 4_096)
            let read = bucket
            views.withLock {
                $0 = ViewStatistics()
                $0?.buckets = [read]
            }
            world.passSecond()
        }
        let series = try #require(service.statistics.sampler.series(ofBucket: "b", .minute))
        #expect(series.values(of: .viewQueries) == [0, 0, 5, 5, 5])
        #expect(series.values(of: .viewsDiskUsed) == [0, 0, 8_192, 8_192, 8_192])
        #expect(series.values(of: .viewsDataUsed) == [0, 0, 4_096, 4_096, 4_096])
        views.withLock { $0 = nil }
        world.passSecond()
        let later = try #require(service.statistics.sampler.series(ofBucket: "b", .minute))
        #expect(later.values(of: .viewsDiskUsed).last == 0)
    }

    @Test func coarserIntervalsHoldMeansWithinCapacity() async throws {
        let service = try await service()
        for second in 1...200 {
            plane.record.withLock {
                $0.statistics["b"]?.copies.add(0, items: UInt64(second), .active)
            }
            world.passSecond()
        }
        let minute = try #require(service.statistics.sampler.series(ofBucket: "b", .minute))
        #expect(minute.values(of: .items) == (141...200).map(Float.init))
        let hour = try #require(service.statistics.sampler.series(ofBucket: "b", .hour))
        #expect(hour.count == 50)
        #expect(hour.values(of: .items).prefix(2) == [1.5, 5.5])
        #expect(hour.intervalMilliseconds == 4_000)
        #expect(service.statistics.sampler.series(ofBucket: "b", .day)?.count == 3)
    }

    @Test func seriesOfNodesAreAddedFromNewestSample() async throws {
        typealias Series = StatisticsSampler.Series
        func series(seconds: Int, _ change: (inout BucketStatistics) -> Void) async throws -> Series
        {
            let test = SamplerTests()
            let service = try await test.service()
            for _ in 0..<seconds {
                test.plane.record.withLock {
                    guard var statistics = $0.statistics["b"] else { return }
                    change(&statistics)
                    $0.statistics["b"] = statistics
                }
                test.world.passSecond()
            }
            return try #require(service.statistics.sampler.series(ofBucket: "b", .minute))
        }
        let long = try await series(seconds: 3) { statistics in
            statistics[.ops] += 10
            statistics[.getHits] += 1
            statistics[.getMisses] += 3
            statistics.copies.add(0, items: 30, .active)
            statistics[.residentItems] = 30
            statistics[.oldestUnpersisted] = 7
        }
        let short = try await series(seconds: 1) { statistics in
            statistics[.ops] += 5
            statistics[.getHits] += 4
            statistics.copies.add(0, items: 10, .active)
            statistics[.residentItems] = 0
            statistics[.oldestUnpersisted] = 4
        }
        let sum = try #require(Series.sum([short, long]))
        #expect(sum.values(of: .ops) == [0, 10, 10, 15])
        #expect(sum.values(of: .items) == [0, 30, 30, 40])
        #expect(sum.values(of: .hitRatio) == [0, 25, 25, 62.5])
        #expect(sum.values(of: .residentPercent) == [100, 100, 100, 75])
        #expect(sum.values(of: .oldestUnpersisted) == [0, 7, 7, 7])
        #expect(sum.timestamps.count == 4 && Series.sum([]) == nil)
    }

    @Test func ratesOfReopenedBucketAreNotNegative() async throws {
        let service = try await service()
        plane.record.withLock { $0.statistics["b"]?[.ops] = 1_000 }
        world.passSecond()
        plane.record.withLock { $0.statistics["b"]?[.ops] = 10 }
        world.passSecond()
        let series = try #require(service.statistics.sampler.series(ofBucket: "b", .minute))
        #expect(series.values(of: .ops) == [0, 1_000, 10])
    }

    @Test func deletedBucketHasNoSamples() async throws {
        let service = try await service()
        world.passSecond()
        #expect(service.statistics.sampler.series(ofBucket: "b", .minute) != nil)
        _ = await Result(of: try await service.buckets.delete("b"))
        #expect(service.statistics.sampler.series(ofBucket: "b", .minute) == nil)
    }
}
