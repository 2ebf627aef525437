import Scripting
import Testing

/// How functions share workers: what a hostile one costs the others, on a machine of two processors.
@Suite struct ScriptFairnessTests {
    private var model = ScriptWorkersModel(processors: 2)
    private let healthy: UInt32 = 1
    private static let second = 1_000 * ScriptWorkersModel.millisecond

    /// Submits a small job of the healthy function every 100 ms, for some time.
    ///
    /// - Returns: The longest time that one of them took.
    private mutating func longestWait(seconds: Int) -> UInt64 {
        var longest: UInt64 = 0
        for turn in 0..<seconds * 10 {
            let number = UInt64(10_000 + turn) + model.now
            let began = model.now
            model.submit(number, of: healthy, items: 1)
            model.run(for: 100 * ScriptWorkersModel.millisecond)
            if model.ends[number] == nil {
                model.run(for: 100 * ScriptFairnessTests.second) { $0.ends[number] != nil }
            }
            longest = max(longest, (model.ends[number] ?? .max) - began)
        }
        return longest
    }

    @Test(arguments: 1...3) mutating func hostileFunctionsDoNotDelayAHealthyOne(count: Int) {
        model.prove(healthy, job: 1)
        for function in 2..<UInt32(2 + count) {
            model.define(function) { _, _ in .timesOut }
            model.submit(UInt64(function), of: function, items: 128)
        }
        // The worker may have ended after five minutes without use, and is started again.
        let longest = longestWait(seconds: 60)
        #expect(longest <= 50 * ScriptWorkersModel.millisecond)
        #expect(model.processesMax <= 3)
        // After the first piece, all of them are in the quarantine.
        for function in 2..<UInt32(2 + count) {
            #expect(model.schedule.trust(of: function) == .suspected)
        }
        // Each of them is stopped after 16 time-outs.
        model.run(for: 120 * ScriptFairnessTests.second) { $0.abandoned.count == count }
        #expect(model.abandoned == Set(2..<UInt64(2 + count)))
    }

    @Test mutating func functionThatKillsItsProcessDoesNotDelayAHealthyOne() {
        model.prove(healthy, job: 1)
        model.define(2) { _, item in item % 3 == 0 ? .kills : .takes(1_000) }
        model.submit(2, of: 2, items: 30)
        let longest = longestWait(seconds: 30)
        #expect(longest <= 50 * ScriptWorkersModel.millisecond)
        #expect(model.skipped.map(\.item) == Array(stride(from: 0, to: 30, by: 3)))
        #expect(model.ends[2] != nil)
        #expect(model.abandoned.isEmpty)
    }

    /// Which of its documents a function will fail on is not known before.
    @Test mutating func provenFunctionThatTurnsHostileDelaysAHealthyOneForOneSlice() {
        model.prove(healthy, job: 1)
        model.prove(2, job: 2)
        model.define(2) { _, _ in .timesOut }
        model.submit(3, of: 2, items: 64)
        model.submit(4, of: 2, items: 64)
        let slice = model.schedule.limits.sliceNanoseconds
        let first = longestWait(seconds: 10)
        #expect(first <= slice + 50 * ScriptWorkersModel.millisecond)
        #expect(model.schedule.trust(of: 2) == .suspected)
        let later = longestWait(seconds: 10)
        #expect(later <= 50 * ScriptWorkersModel.millisecond)
    }

    @Test mutating func newFunctionIsProvenBesideASuspectedOne() throws {
        model.define(2) { _, _ in .timesOut }
        model.submit(2, of: 2, items: 128)
        model.run(for: 5 * ScriptFairnessTests.second)
        #expect(model.schedule.trust(of: 2) == .suspected)
        model.define(3) { _, _ in .takes(1_000) }
        let began = model.now
        model.submit(3, of: 3, items: 1_000)
        model.run(for: 100 * ScriptFairnessTests.second) { $0.ends[3] != nil }
        let end = try #require(model.ends[3])
        #expect(end - began <= 200 * ScriptWorkersModel.millisecond)
    }

    @Test mutating func suspectedFunctionTurnsHealthyAfterGoodPieces() throws {
        model.define(2) { _, item in item == 5 ? .timesOut : .takes(1_000) }
        model.submit(2, of: 2, items: 500)
        model.run(for: 100 * ScriptFairnessTests.second) { $0.ends[2] != nil }
        #expect(model.ends[2] != nil)
        #expect(model.schedule.trust(of: 2) == .proven)
        // It was executed in all three places, and the quarantine worker ends soon.
        #expect(model.places[2] == [0, 1, 2])
        model.run(for: 11 * ScriptFairnessTests.second)
        #expect(model.processCount == 1)
    }

    @Test mutating func nodeWithoutHostileFunctionsHasOneIdleProcess() {
        for function in 1...10 as ClosedRange<UInt32> {
            model.prove(function, job: UInt64(function))
        }
        model.run(for: 11 * ScriptFairnessTests.second)
        #expect(model.processCount == 1)
        model.run(for: 400 * ScriptFairnessTests.second)
        #expect(model.processCount == 0)
    }

    @Test mutating func functionsOfDifferentSpeedHaveEqualShares() throws {
        let costs: [UInt32: UInt64] = [1: 10_000, 2: 200_000, 3: 2_000_000]
        for (function, cost) in costs.sorted(by: { $0.key < $1.key }) {
            model.prove(function, job: UInt64(function))
            model.define(function) { _, _ in .takes(cost) }
        }
        let before = model.used
        for number in 0..<200 as Range<UInt64> {
            for function in costs.keys.sorted() {
                model.submit(100 + number * 10 + UInt64(function), of: function, items: 4_096)
            }
        }
        model.run(for: 20 * ScriptFairnessTests.second)
        let shares = costs.keys.map { Double((model.used[$0] ?? 0) - (before[$0] ?? 0)) }
        let (least, most) = (shares.min() ?? 0, shares.max() ?? 0)
        #expect(least > 5e9)
        #expect(most < 1.2 * least)
    }

    @Test mutating func reductionsOfClientsRunBeforeIndexesAndDoNotStarveThem() throws {
        for function in 1...2 as ClosedRange<UInt32> {
            model.prove(function, job: UInt64(function))
            model.define(function) { _, _ in .takes(20 * ScriptWorkersModel.millisecond) }
        }
        for number in 0..<100 as Range<UInt64> { model.submit(100 + number, of: 1, items: 1) }
        for number in 0..<100 as Range<UInt64> {
            model.submit(300 + number, of: 2, items: 1, demand: .whole)
        }
        let began = model.order.count
        model.run(for: 100 * ScriptFairnessTests.second) { $0.ends[399] != nil }
        let order = model.order[began...]
        let builds = order.count { $0 == 1 }
        #expect(builds >= 8)
        #expect(builds <= 30)
        model.run(for: 100 * ScriptFairnessTests.second) { $0.ends[199] != nil }
        #expect(model.ends[199] != nil)
    }

    @Test mutating func clientsJobIsAbandonedAtItsFirstTimeOut() throws {
        model.define(2) { _, item in item == 3 ? .timesOut : .takes(1_000) }
        model.submit(2, of: 2, items: 1_000, demand: .whole)
        model.run(for: 10 * ScriptFairnessTests.second) { $0.ends[2] != nil }
        #expect(model.abandoned == [2])
    }

    /// Documents of a sync function come from many clients, one of which writes those that time out.
    @Test mutating func jobOfIndependentCallsIsAbandonedByItsOwnFailuresInSuccession() throws {
        model.define(2) { job, item in
            job == 3 || job == 2 && item == 3 ? .timesOut : .takes(1_000)
        }
        model.submit(2, of: 2, items: 100, demand: .each)
        model.run(for: 10 * ScriptFairnessTests.second) { $0.ends[2] != nil }
        #expect(model.ends[2] != nil && model.abandoned.isEmpty)
        model.submit(3, of: 2, items: 100, demand: .each)
        model.submit(4, of: 2, items: 100, demand: .each)
        model.run(for: 60 * ScriptFairnessTests.second) { $0.ends[4] != nil }
        #expect(model.ends[4] != nil && model.abandoned == [3])
    }

    // MARK: Several buckets

    /// Proves a function of each bucket, and has all of them work without a pause.
    private mutating func makeBusy(buckets: Int, calls nanoseconds: UInt64) {
        for function in 1...UInt32(buckets) {
            model.buckets[function] = "bucket \(function)"
            model.prove(function, job: UInt64(function))
            model.define(function) { _, _ in .takes(nanoseconds) }
        }
        for function in 1...UInt32(buckets) {
            model.submit(1_000 + UInt64(function), of: function, items: 10_000_000)
        }
    }

    @Test(arguments: [2, 3, 5]) mutating func processesWorkForOneBucketEach(processors: Int) {
        model = ScriptWorkersModel(processors: processors)
        makeBusy(buckets: 10, calls: 10_000)
        model.run(for: 60 * ScriptFairnessTests.second)
        #expect(model.tenants.values.allSatisfy { $0.count == 1 })
        #expect(Set(model.tenants.values.joined()).count == 10)
        #expect(model.processesMax <= model.schedule.limits.slots)
    }

    /// Ten buckets that are always busy share one worker: nine tenths of its time are work, and no bucket
    /// has much less than another.
    @Test mutating func busyBucketsShareAWorkerWithUnderTenPercentLoss() {
        makeBusy(buckets: 10, calls: 10_000)
        let before = model.used
        model.run(for: 120 * ScriptFairnessTests.second)
        let shares = model.used.map { $0.value - (before[$0.key] ?? 0) }
        let all = shares.reduce(0, +)
        #expect(all >= 108 * ScriptFairnessTests.second)
        #expect((shares.min() ?? 0) * 20 >= all)
    }

    @Test mutating func clientIsNotDelayedForLongByBusyBuckets() {
        makeBusy(buckets: 3, calls: 10_000)
        let client: UInt32 = 20
        model.buckets[client] = "bucket of the client"
        model.prove(client, job: 20)
        for number in UInt64(2_000)..<2_020 {
            let began = model.now
            model.submit(number, of: client, items: 1, demand: .whole)
            model.run(for: 10 * ScriptFairnessTests.second) { $0.ends[number] != nil }
            let waited = (model.ends[number] ?? .max) - began
            #expect(waited <= 300 * ScriptWorkersModel.millisecond)
            model.run(for: ScriptFairnessTests.second)
        }
    }

    /// A process without work is ended at once for another bucket, if it has had its short tenure.
    @Test mutating func idleProcessIsReplacedForAnotherBucket() {
        model.prove(healthy, job: 1)
        model.buckets[2] = "b"
        model.prove(2, job: 2)
        for number in UInt64(100)..<110 {
            let function: UInt32 = number.isMultiple(of: 2) ? healthy : 2
            model.run(for: ScriptFairnessTests.second)
            let began = model.now
            model.submit(number, of: function, items: 1)
            model.run(for: ScriptFairnessTests.second) { $0.ends[number] != nil }
            let waited = (model.ends[number] ?? .max) - began
            #expect(waited <= 30 * ScriptWorkersModel.millisecond)
        }
        #expect(model.tenants.values.allSatisfy { $0.count == 1 })
    }
}
