import ClusterService
import TestSupport
import Testing

/// Errors that user interfaces report to a node.
@Suite struct ClientReportTests {
    private let trace = RecordingTrace()
    private let second: UInt64 = 1_000_000_000

    private func lines() -> [String] { trace.lines(of: "client") }

    @Test func reportsBeyondThoseOfAMinuteAreCountedInOneLine() throws {
        let world = World(trace: trace)
        let service = try world.service(RecordingPlane())
        defer { service.stop() }
        for number in 0..<20 {
            #expect(service.statistics.logClientError("report \(number)") == nil)
        }
        #expect(lines() == (0..<20).map { "client: report \($0)" })
        world.time.advance(by: 10 * second + 1)
        for _ in 0..<3 { #expect(service.statistics.logClientError("too many") == 50) }
        #expect(lines().count == 20)
        #expect(world.lanes.timerCount(nanoseconds: 50 * second - 1) == 1)
        world.time.advance(by: 50 * second - 1)
        world.lanes.runTimers()
        #expect(lines().count == 21)
        #expect(lines().last?.contains("3 dropped") == true)
        // The next minute begins with its first report.
        world.time.advance(by: 30 * second)
        for _ in 0..<20 { #expect(service.statistics.logClientError("later") == nil) }
        #expect(service.statistics.logClientError("too many") == 60)
        world.time.advance(by: 60 * second)
        // The report that begins the next minute does not forget what was dropped in this one.
        #expect(service.statistics.logClientError("much later") == nil)
        world.lanes.runTimers()
        #expect(lines().last?.contains("1 dropped") == true)
        #expect(lines().count == 21 + 20 + 2)
        #expect(!service.cluster.events.all().contains { $0.text.contains("report") })
    }
}
