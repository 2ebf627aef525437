import Glibc
import LinuxPlatform
import Testing

/// Programs that run to their end within limits, with the system's shell as the program.
@Suite struct ProgramRunTests {
    private static let tenMinutes: UInt64 = 600_000_000_000
    private static let fiftyMilliseconds: UInt64 = 50_000_000

    private func shell(
        _ script: String,
        cpuNanosecondsMax: UInt64 = ProgramRunTests.tenMinutes,
        nanosecondsMax: UInt64 = ProgramRunTests.tenMinutes
    ) -> ProgramRun {
        ProgramRun(
            LimitedProgram(
                "/bin/sh",
                ["-c", script],
                cpuNanosecondsMax: cpuNanosecondsMax,
                nanosecondsMax: nanosecondsMax
            )
        )
    }

    private func finalReport(of run: ProgramRun) throws -> ProgramReport {
        #expect(ProgramRun.waitForEnds(of: [run]) == [0])
        #expect(run.process == nil)
        return try #require(run.report)
    }

    @Test func endedProgramHasItsOutputItsErrorsAndItsStatus() throws {
        let report = try finalReport(of: shell("printf out; printf err >&2; read line; exit 7"))
        #expect(String(decoding: report.output, as: UTF8.self) == "out")
        #expect(String(decoding: report.errors, as: UTF8.self) == "err")
        #expect(report.end == .exited(status: 7))
    }

    /// More than a pipe holds, of both kinds: the program ends only if both are read.
    @Test func largeOutputAndErrorsAreCollectedAsAWhole() throws {
        let script = "head -c 700000 /dev/zero >&2; head -c 9000000 /dev/zero"
        let report = try finalReport(of: shell(script))
        #expect(report.end == .exited(status: 0))
        #expect(report.errors == [UInt8](repeating: 0, count: 700_000))
        #expect(report.output == [UInt8](repeating: 0, count: 9_000_000))
    }

    @Test func programThatASignalEndsReportsTheSignal() throws {
        #expect(try finalReport(of: shell("kill -TERM $$")).end == .signalled(SIGTERM))
    }

    @Test func missingProgramIsReportedWithItsPath() throws {
        let run = ProgramRun(
            LimitedProgram(
                "/bin/divan-no-such-program",
                [],
                cpuNanosecondsMax: ProgramRunTests.tenMinutes,
                nanosecondsMax: ProgramRunTests.tenMinutes
            )
        )
        guard case .failed(let reason) = try finalReport(of: run).end else {
            Issue.record("the program was started")
            return
        }
        #expect(reason.hasPrefix("Cannot start /bin/divan-no-such-program: "))
    }

    @Test func spinningProgramExceedsItsProcessorTime() throws {
        let run = shell(
            "while :; do :; done",
            cpuNanosecondsMax: ProgramRunTests.fiftyMilliseconds
        )
        #expect(try finalReport(of: run).end == .exceededCPUTime)
    }

    /// The end comes before the limits are compared for the first time, or after it.
    @Test func programEndedBeyondCPULimitReportsExceededCPUTime() throws {
        let report = try finalReport(of: shell("exit 0", cpuNanosecondsMax: 1))
        #expect(report.end == .exceededCPUTime)
        #expect(report.cpuNanoseconds > 1)
    }

    @Test func sleepingProgramExceedsItsTimeByTheClock() throws {
        let run = shell(
            "printf early; exec sleep 1000",
            nanosecondsMax: ProgramRunTests.fiftyMilliseconds
        )
        let report = try finalReport(of: run)
        #expect(report.end == .exceededTime)
        #expect(report.cpuNanoseconds < ProgramRunTests.tenMinutes)
    }

    @Test func stoppedProgramIsNotReportedAsEnded() throws {
        let stopped = shell("kill -STOP $$; exit 3")
        let other = shell("exit 4")
        #expect(ProgramRun.waitForEnds(of: [stopped, other]) == [1])
        let process = try #require(stopped.process)
        // The shell stops itself at some time: continue it until it has ended.
        let continuer = shell("while kill -CONT \(process); do sleep 0.01; done 2>/dev/null")
        #expect(ProgramRun.waitForEnds(of: [stopped]) == [0])
        #expect(stopped.report?.end == .exited(status: 3))
        _ = ProgramRun.waitForEnds(of: [continuer])
    }

    @Test func waitReturnsTheEndedProgramsOnly() throws {
        let runs = [shell("exec sleep 1000"), shell("exit 5"), shell("exec sleep 1000")]
        #expect(ProgramRun.waitForEnds(of: runs) == [1])
        #expect(runs[1].report?.end == .exited(status: 5))
        #expect(runs[0].report == nil && runs[2].report == nil)
    }

    @Test func releasedRunKillsItsProcess() throws {
        var run: ProgramRun? = shell("exec sleep 1000")
        let process = try #require(run?.process)
        #expect(kill(process, 0) == 0)
        run = nil
        #expect(kill(process, 0) != 0)
    }
}
