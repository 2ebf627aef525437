import Bytes
import ClusterService
import Foundation
import Testing
import Vocabulary

/// The table of statistics, and what the admin port shows of it.
@Suite struct StatisticTableTests {
    private func areUnique(_ names: [String]) -> Bool { Set(names).count == names.count }

    @Test func namesAreUniqueInEachList() {
        let general = Statistic.general.numbers + Statistic.general.memory
        for list in [Statistic.samples, Statistic.interesting, general, Statistic.memory] {
            #expect(areUnique(list.map(\.name)))
        }
        #expect(areUnique(Statistic.metrics.map(\.name)))
        #expect(areUnique(Statistic.operations.map { "\($0.op) \($0.result ?? "")" }))
        #expect(SampledStatistic.allCases.count == Set(SampledStatistic.allCases).count)
    }

    @Test func everyMetricIsNamedAfterItsUnitAndHasASentence() {
        for (name, help, statistic) in Statistic.metrics {
            #expect(help.hasSuffix("."), "\(name)")
            #expect(name.hasSuffix("_bytes") == (statistic.unit == .bytes), "\(name)")
            #expect(name.hasSuffix("_seconds") == (statistic.unit == .milliseconds), "\(name)")
        }
    }

    @Test func everyStatisticThatNodesSendHasANameForTools() {
        let named =
            Statistic.samples.map(\.statistic) + Statistic.metrics.map(\.statistic)
            + Statistic.operations.map(\.statistic)
        #expect(Set(Statistic.sent).subtracting(named) == [])
        #expect(Set(Statistic.counted).subtracting(named) == [.otherCommands])
    }

    @Test func adminPortShowsEveryStatisticUnderItsName() async throws {
        try await Site.with { site in
            try await site.createBucket("b")
            for (place, statistic) in Statistic.sent.enumerated() {
                site.plane.buckets.withLock {
                    $0["b"]?.statistics[statistic] = UInt64(place + 1) * 1_000
                }
            }
            let shown = try #require(site.service.cluster.dataPlane.statistics(ofBucket: "b"))
            let lines = try await site.ask("GET /metrics").text.split(separator: "\n")
            for (name, _, statistic) in Statistic.metrics {
                let number = shown[statistic] / (statistic.unit == .milliseconds ? 1_000 : 1)
                #expect(lines.contains("\(name){bucket=\"b\"} \(number)"), "\(name)")
            }
            for (op, result, statistic) in Statistic.operations {
                let ending = result.map { ",result=\"\($0)\"" } ?? ""
                let label = "{bucket=\"b\",op=\"\(op)\"\(ending)}"
                #expect(lines.contains("kv_ops\(label) \(shown[statistic])"), "\(label)")
            }
            let reply = try await site.ask("GET /pools/default/buckets/b/stats").object
            let samples = (reply["op"] as? [String: Any])?["samples"] as? [String: Any] ?? [:]
            #expect(Set(samples.keys) == Set(Statistic.samples.map(\.name) + ["timestamp"]))
            for (name, _) in Statistic.samples {
                let one = try await site.ask("GET /pools/default/buckets/b/stats/\(name)")
                #expect(one.status == 200, "\(name)")
            }
        }
    }
}
