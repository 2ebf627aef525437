import Bytes
import Glibc
import LinuxPlatform
import Seams
import Testing

/// Who may open descriptors, as tables.
@Suite struct DescriptorPlanTests {
    typealias Use = DescriptorPlan.Use
    typealias Usage = DescriptorPlan.Usage

    static let limits = [16, 64, 256, 300, 1_024, 4_096, 65_536, 1 << 20, Int.max / 2]

    /// Each kind of connection takes all it gets, one after the other; files take the rest.
    private func exhausted(_ plan: DescriptorPlan, by use: Use, _ usage: Usage) -> Usage {
        var usage = usage
        while plan.admits(use, usage) {
            usage.connections[use, default: 0] += 1
            usage.open += 1
        }
        return usage
    }

    @Test(arguments: [256, 300, 1_024, 4_096], Use.allCases)
    func exhaustedUseLeavesOtherUsesTheirDescriptors(limit: Int, greedy: Use) {
        let plan = DescriptorPlan(limit: limit)
        let taken = exhausted(plan, by: greedy, Usage(open: 60))
        #expect(taken[greedy] >= plan.part(of: greedy))
        var all = taken
        for use in Use.allCases where use != greedy {
            all = exhausted(plan, by: use, all)
            #expect(all[use] >= plan.part(of: use), "\(use) beside \(greedy)")
        }
        #expect(limit - all.open >= plan.spare + plan.files)
    }

    @Test(arguments: [256, 300, 1_024, 4_096], Use.allCases)
    func filesAreRefusedBeforeTheyUseThePartOfConnections(limit: Int, use: Use) {
        let plan = DescriptorPlan(limit: limit)
        var usage = Usage(open: 60)
        while plan.admitsFiles(1, usage) { usage.open += 1 }
        let full = exhausted(plan, by: use, usage)
        #expect(full[use] >= plan.part(of: use))
        #expect(limit - full.open >= plan.spare)
        #expect(!plan.admitsFiles(1, full))
    }

    @Test(arguments: limits) func clientsWithoutALoginLeaveRoomOnEachPort(limit: Int) {
        let plan = DescriptorPlan(limit: limit)
        #expect(plan.withoutLoginMax >= 1)
        #expect(plan.withoutLoginMax < plan.part(of: .administration))
        #expect(plan.withoutLoginMax < plan.part(of: .clients))
    }

    @Test func processWithManyDescriptorsHasTheUsualBoundOfClientsWithoutALogin() {
        #expect(DescriptorPlan(limit: 65_536).withoutLoginMax >= LoginWatch.connectionsMax)
    }

    @Test func nodeOf300DescriptorsHasRoomForThreeBucketsAndTwentyViews() {
        let plan = DescriptorPlan(limit: 300)
        // 64 with three buckets, and 5 for each of 20 views; 20 connections of two peers.
        let usage = Usage(open: 64 + 100 + 20, connections: [.nodes: 20])
        #expect(plan.admits(.clients, usage))
        #expect(plan.admits(.administration, usage))
        #expect(plan.admitsFiles(5, usage))
    }

    @Test func everyUseIsRefusedWithoutFreeDescriptors() {
        let plan = DescriptorPlan(limit: 1_024)
        let usage = Usage(open: 1_024 - plan.spare)
        for use in Use.allCases { #expect(!plan.admits(use, usage)) }
        #expect(!plan.admitsFiles(1, usage))
    }
}

/// The shared count of descriptors.
@Suite struct DescriptorsTests {
    private let clock = Guarded<UInt64>(1_000_000_000_000)
    private let open = Guarded(40)

    private func make(_ limit: Int) -> Descriptors {
        Descriptors(
            limit: limit,
            now: { [clock] in clock.withLock { $0 } },
            count: { [open] in open.withLock { $0 } }
        )
    }

    private func connect(_ descriptors: Descriptors, _ use: DescriptorPlan.Use) -> Bool {
        guard descriptors.admits(use) else { return false }
        descriptors.opened(use)
        open.withLock { $0 += 1 }
        return true
    }

    @Test func refusedClientsAreReportedWithNumberAndCureUntilTheyAreAccepted() {
        let descriptors = make(300)
        #expect(descriptors.shortage == nil)
        var count = 0
        while connect(descriptors, .clients) { count += 1 }
        #expect(count > 0 && count < 300)
        let warning = descriptors.warning(of: .clients) ?? ""
        #expect(warning.contains("of 300 descriptors") && warning.contains("ulimit -n"))
        #expect(warning.contains("\(count) by clients"))
        #expect(descriptors.warning(of: .clients) == nil)
        #expect(descriptors.shortage == warning)
        #expect(connect(descriptors, .administration))
        #expect(connect(descriptors, .nodes))
        for _ in 0..<20 {
            descriptors.closed(.clients)
            open.withLock { $0 -= 1 }
        }
        clock.withLock { $0 += 11_000_000_000 }
        #expect(connect(descriptors, .clients))
        #expect(descriptors.shortage == nil)
    }

    @Test func filesOfLibrariesAreCounted() {
        let descriptors = make(300)
        #expect(descriptors.admits(.clients))
        open.withLock { $0 = 290 }
        clock.withLock { $0 += 10_000_000_000 }
        #expect(!descriptors.admits(.clients))
        let obstacle = descriptors.obstacle(toOpening: 5) ?? ""
        #expect(obstacle.contains("5 more open files") && obstacle.contains("290 of 300"))
        open.withLock { $0 = 40 }
        #expect(descriptors.obstacle(toOpening: 5) == nil)
        clock.withLock { $0 += 1_000_000_000 }
        #expect(descriptors.admits(.clients))
    }

    @Test func kernelsCountIncludesEachOpenedDescriptor() {
        let environment = LinuxEnvironment.make(reactors: 1, logLevel: .error)
        defer { environment.stop() }
        let descriptors = environment.environment.descriptors
        func count() -> Int {
            let text = descriptors.obstacle(toOpening: descriptors.plan.limit) ?? ""
            return text.split(separator: " ").compactMap { Int($0) }.dropFirst().first ?? -1
        }
        // Other tests of this process open and close descriptors at the same time.
        let found = (0..<20).contains { _ in
            let before = count()
            let copies = (0..<100).map { _ in dup(0) }
            defer { for copy in copies { close(copy) } }
            return before > 0 && (90...110).contains(count() - before)
        }
        #expect(found)
    }
}
