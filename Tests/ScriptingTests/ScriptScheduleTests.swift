import Scripting
import Testing

/// The schedule of script workers, as scripts of events and expected actions.
///
/// With three processors, slots 0 and 1 are ordinary workers, 2 is that of new functions, and 3 the
/// quarantine.
@Suite final class ScriptScheduleTests {
    private var schedule = ScriptSchedule(ScriptScheduleLimits(processors: 3))
    private var now: UInt64 = 1_000_000_000_000

    private typealias Action = ScriptSchedule.Action

    private func handle(_ event: ScriptSchedule.Event) -> [Action] {
        schedule.handle(event, now: now)
    }

    private func worker(_ slot: Int, _ generation: UInt32) -> ScriptWorkerID {
        ScriptWorkerID(slot: slot, generation: generation)
    }

    private func job(_ number: UInt64, of function: UInt32 = 1, items: Int = 1) -> ScriptJob {
        ScriptJob(number: number, function: function, bucket: "a", itemCount: items)
    }

    private func piece(_ job: UInt64, _ items: Range<Int>) -> ScriptPiece {
        ScriptPiece(job: job, items: items)
    }

    /// Executes a batch without time-outs.
    private func run(_ id: ScriptWorkerID, _ batch: UInt32) -> [Action] {
        handle(.executing(id, batch: batch)) + handle(.finished(id, batch: batch, timeouts: 0))
    }

    /// Proves functions by jobs of 15 items each, in the worker of new functions, and ends it.
    ///
    /// - Returns: The first free numbers of a process and of a batch.
    private func prove(_ functions: [UInt32]) -> (generation: UInt32, batch: UInt32) {
        let id = worker(2, 1)
        var batch: UInt32 = 1
        for (index, function) in functions.enumerated() {
            var actions = handle(.submitted(job(UInt64(1_000 + index), of: function, items: 15)))
            if index == 0 {
                #expect(actions == [.start(id)])
                actions = handle(.ready(id))
            }
            for _ in 0..<ScriptReputation.proofPieces {
                #expect(actions.count == 1)
                actions = run(id, batch)
                batch += 1
            }
            #expect(actions == [.complete(job: UInt64(1_000 + index))])
            #expect(schedule.trust(of: function) == .proven)
        }
        now += schedule.limits.sideIdleNanoseconds
        #expect(handle(.timer) == [.stop(id, .idle)])
        #expect(handle(.ended(id)).isEmpty)
        return (2, batch)
    }

    @Test(arguments: [(1, 1), (2, 1), (3, 2), (5, 4), (64, 4)])
    func workersAreAtMostFourAndLeaveOneCPU(processors: Int, workers: Int) {
        #expect(ScriptScheduleLimits(processors: processors).workersMax == workers)
    }

    @Test func newFunctionIsProvenInQuarantineByGrowingPieces() {
        let side = worker(2, 1)
        #expect(handle(.submitted(job(7, items: 20))) == [.start(side)])
        #expect(handle(.ready(side)) == [.send(piece(7, 0..<1), batch: 1, to: side)])
        #expect(!schedule.accepts(worker(2, 2), batch: 1))
        #expect(!schedule.accepts(side, batch: 2))
        #expect(schedule.accepts(side, batch: 1))
        #expect(run(side, 1) == [.send(piece(7, 1..<3), batch: 2, to: side)])
        #expect(!schedule.accepts(side, batch: 1))
        #expect(run(side, 2) == [.send(piece(7, 3..<7), batch: 3, to: side)])
        #expect(run(side, 3) == [.send(piece(7, 7..<15), batch: 4, to: side)])
        #expect(run(side, 4) == [.start(worker(0, 2))])
        #expect(schedule.trust(of: 1) == .proven)
        #expect(
            handle(.ready(worker(0, 2))) == [.send(piece(7, 15..<20), batch: 5, to: worker(0, 2))]
        )
        #expect(run(worker(0, 2), 5) == [.complete(job: 7)])
    }

    @Test func workersAreStartedOnDemandWithFourFramesEach() {
        let (generation, batch) = prove([1])
        let (first, second) = (worker(0, generation), worker(1, generation + 1))
        #expect(handle(.submitted(job(1, items: 8))) == [.start(first)])
        #expect(handle(.submitted(job(2, items: 8))) == [.start(second)])
        for number in 3...20 {
            #expect(handle(.submitted(job(UInt64(number), items: 8))).isEmpty)
        }
        #expect(handle(.ready(first)).count == 4)
        #expect(handle(.ready(second)).count == 4)
        #expect(
            run(second, batch + 4)
                == [.complete(job: 5), .send(piece(9, 0..<8), batch: batch + 8, to: second)]
        )
        #expect(schedule.workerCount == 2)
    }

    @Test func unusedWorkerIsStoppedAfterFiveMinutes() throws {
        let (generation, batch) = prove([1])
        let id = worker(0, generation)
        _ = handle(.submitted(job(1)))
        _ = handle(.ready(id))
        #expect(run(id, batch) == [.complete(job: 1)])
        let deadline = try #require(schedule.nextDeadline)
        #expect(deadline == now + 300_000_000_000)
        now = deadline - 1
        #expect(handle(.timer).isEmpty)
        now = deadline
        #expect(handle(.timer) == [.stop(id, .idle)])
        #expect(handle(.timer).isEmpty)
        #expect(schedule.nextDeadline == nil)
        // A job that comes meanwhile does not wait for the end of the process.
        #expect(handle(.submitted(job(2))) == [.start(worker(1, generation + 1))])
        #expect(handle(.ended(id)).isEmpty)
        #expect(schedule.failures == 0)
    }

    @Test func workerAboveMemoryThresholdIsRecycledBetweenFrames() {
        let (generation, batch) = prove([1])
        let (id, next) = (worker(0, generation), worker(1, generation + 1))
        _ = handle(.submitted(job(1)))
        _ = handle(.ready(id))
        _ = handle(.executing(id, batch: batch))
        #expect(handle(.measured(id, residentBytes: 160 << 20)).isEmpty)
        // It gets no more frames; another worker does.
        #expect(handle(.submitted(job(2))) == [.start(next)])
        #expect(
            handle(.finished(id, batch: batch, timeouts: 0))
                == [.complete(job: 1), .stop(id, .recycled)]
        )
        #expect(handle(.ended(id)).isEmpty)
        #expect(handle(.ready(next)) == [.send(piece(2, 0..<1), batch: batch + 1, to: next)])
        #expect(schedule.trust(of: 1) == .proven)
    }

    /// Earlier frames left the memory in use: the next frame did not.
    @Test(arguments: [true, false])
    func frameThatIsNotExecutingIsNotSuspectOfTheMemory(retires: Bool) {
        let (generation, batch) = prove([1, 2])
        let (id, next) = (worker(0, generation), worker(1, generation + 1))
        _ = handle(.submitted(job(1, of: 1)))
        _ = handle(.ready(id))
        #expect(handle(.submitted(job(2, of: 2))).last == .start(next))
        #expect(run(id, batch) == [.complete(job: 1)])
        #expect(
            retires
                ? handle(.retiring(id)) == [.stop(id, .recycled)]
                : handle(.measured(id, residentBytes: 300 << 20)) == [.stop(id, .memory)]
        )
        #expect(handle(.ended(id)).isEmpty)
        #expect(handle(.ready(next)) == [.send(piece(2, 0..<1), batch: batch + 2, to: next)])
        #expect(schedule.trust(of: 2) == .proven)
    }

    @Test func processThatRetiresWithoutAResultCountsAsViolation() {
        let id = worker(2, 1)
        _ = handle(.submitted(job(1)))
        _ = handle(.ready(id))
        #expect(handle(.retiring(id)) == [.stop(id, .violated)])
        _ = handle(.ended(id))
        #expect(schedule.trust(of: 1) == .suspected)
    }

    @Test func onlyTheExecutingFrameOfADeadWorkerIsSuspect() {
        let (generation, batch) = prove([1, 2])
        let id = worker(0, generation)
        _ = handle(.submitted(job(1, of: 1, items: 2)))
        #expect(handle(.ready(id)) == [.send(piece(1, 0..<2), batch: batch, to: id)])
        #expect(
            handle(.submitted(job(2, of: 2, items: 2))) == [
                .send(piece(2, 0..<2), batch: batch + 1, to: id), .start(worker(1, generation + 1)),
            ]
        )
        _ = handle(.executing(id, batch: batch))
        #expect(handle(.measured(id, residentBytes: 300 << 20)) == [.stop(id, .memory)])
        // Results that arrive now are not accepted.
        #expect(!schedule.accepts(id, batch: batch))
        #expect(handle(.finished(id, batch: batch, timeouts: 0)).isEmpty)
        let quarantine = worker(3, generation + 2)
        #expect(handle(.ended(id)) == [.discard(batch: batch), .start(quarantine)])
        #expect(schedule.trust(of: 1) == .suspected)
        #expect(schedule.trust(of: 2) == .proven)
        #expect(
            handle(.ready(worker(1, generation + 1))) == [
                .send(piece(2, 0..<2), batch: batch + 2, to: worker(1, generation + 1))
            ]
        )
        #expect(
            handle(.ready(quarantine))
                == [.send(piece(1, 0..<1), batch: batch + 3, to: quarantine)]
        )
    }

    @Test func callIsSkippedWhenItEndedAFreshProcessTwice() {
        var sent: [Range<Int>] = []
        var skipped: [ScriptBlame] = []
        var isComplete = false
        var actions = handle(.submitted(job(1, items: 4)))
        // Item 2 ends its process; everything else passes.
        for _ in 0..<60 where !isComplete {
            var next: [Action] = []
            for action in actions {
                switch action {
                case .start(let started): next += handle(.ready(started))
                case .send(let piece, let batch, let to):
                    if to.slot == 3 { sent.append(piece.items) }
                    next += handle(.executing(to, batch: batch))
                    next +=
                        piece.items.contains(2)
                        ? handle(.ended(to)) : handle(.finished(to, batch: batch, timeouts: 0))
                case .stop(let stopped, _): next += handle(.ended(stopped))
                case .skip(let blame): skipped.append(blame)
                case .complete: isComplete = true
                case .discard, .abandon: break
                }
            }
            actions = next
            if actions.isEmpty, let deadline = schedule.nextDeadline {
                now = max(now, deadline)
                actions = handle(.timer)
            }
        }
        // The first call with the item is in a process that did other work before.
        #expect(sent == [1..<2, 2..<3, 2..<3, 2..<3, 3..<4])
        #expect(skipped == [ScriptBlame(job: 1, item: 2, reason: .memory)])
        #expect(isComplete)
    }

    @Test func deathBeforeTheFirstCallMakesTheOldestFrameSuspect() {
        let (generation, batch) = prove([1, 2])
        let id = worker(0, generation)
        _ = handle(.submitted(job(1, of: 1)))
        _ = handle(.ready(id))
        _ = handle(.submitted(job(2, of: 2)))
        let next = worker(1, generation + 1)
        #expect(handle(.ready(next)).isEmpty)
        #expect(handle(.ended(id)) == [.send(piece(2, 0..<1), batch: batch + 2, to: next)])
        #expect(schedule.trust(of: 1) == .suspected)
        #expect(schedule.trust(of: 2) == .proven)
    }

    @Test func callThatCouldNotBeInterruptedIsSkippedAtOnce() {
        let (generation, batch) = prove([1])
        let id = worker(0, generation)
        _ = handle(.submitted(job(1, items: 8)))
        _ = handle(.ready(id))
        _ = handle(.executing(id, batch: batch))
        #expect(handle(.overran(id, batch: batch, item: 3)) == [.stop(id, .overran)])
        let quarantine = worker(3, generation + 1)
        let blame = ScriptBlame(job: 1, item: 3, reason: .timedOut)
        #expect(
            handle(.ended(id)) == [.discard(batch: batch), .skip(blame), .start(quarantine)]
        )
        #expect(
            handle(.ready(quarantine))
                == [.send(piece(1, 0..<1), batch: batch + 1, to: quarantine)]
        )
    }

    @Test func workerThatRepliesOutOfOrderIsStopped() {
        let (generation, batch) = prove([1])
        let id = worker(0, generation)
        _ = handle(.submitted(job(1)))
        _ = handle(.ready(id))
        _ = handle(.submitted(job(2)))
        #expect(handle(.executing(id, batch: batch + 1)).first == .stop(id, .violated))
    }

    @Test func quarantineWorkerWithoutProgressIsStopped() throws {
        let (quarantine, batch) = suspect()
        _ = handle(.executing(quarantine, batch: batch))
        now += 39_999_999_999
        #expect(handle(.timer).isEmpty)
        now += 1
        #expect(handle(.timer) == [.stop(quarantine, .hung)])
    }

    /// Makes function 1 suspected: its first call occupies a worker for longer than a slice.
    ///
    /// - Returns: The quarantine worker, and the batch that it has.
    private func suspect() -> (ScriptWorkerID, UInt32) {
        let side = worker(2, 1)
        #expect(handle(.submitted(job(1, items: 20))) == [.start(side)])
        #expect(handle(.ready(side)) == [.send(piece(1, 0..<1), batch: 1, to: side)])
        _ = handle(.executing(side, batch: 1))
        now += schedule.limits.sliceNanoseconds - 1
        #expect(handle(.timer).isEmpty)
        now += 1
        #expect(handle(.timer) == [.stop(side, .slow)])
        let quarantine = worker(3, 2)
        #expect(handle(.ended(side)) == [.discard(batch: 1), .start(quarantine)])
        #expect(handle(.ready(quarantine)) == [.send(piece(1, 0..<1), batch: 2, to: quarantine)])
        return (quarantine, 2)
    }

    @Test func eventsOfADeadGenerationAreIgnored() {
        let id = worker(2, 1)
        _ = handle(.submitted(job(1)))
        _ = handle(.ready(id))
        _ = handle(.executing(id, batch: 1))
        _ = handle(.ended(id))
        let before = schedule.nextDeadline
        for event in [
            .ended(id), .ready(id), .executing(id, batch: 1),
            .finished(id, batch: 1, timeouts: 0), .violated(id),
            .overran(id, batch: 1, item: 0), .measured(id, residentBytes: .max),
        ] as [ScriptSchedule.Event] {
            #expect(handle(event).isEmpty, "\(event)")
        }
        #expect(schedule.nextDeadline == before)
    }

    @Test func failingProgramIsRestartedWithGrowingPauses() throws {
        _ = handle(.submitted(job(1)))
        var pauses: [UInt64] = []
        var id = worker(2, 1)
        for _ in 0..<12 {
            #expect(handle(.ended(id)).isEmpty)
            let deadline = try #require(schedule.nextDeadline)
            pauses.append((deadline - now) / 1_000_000)
            now = deadline - 1
            #expect(handle(.timer).isEmpty)
            now = deadline
            let actions = handle(.timer)
            guard case .start(let next) = actions.first, actions.count == 1 else {
                Issue.record("\(actions)")
                return
            }
            id = next
        }
        #expect(pauses.prefix(9) == [100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600])
        #expect(pauses.suffix(3) == [30_000, 30_000, 30_000])
        #expect(schedule.isUnable)
        _ = handle(.ready(id))
        #expect(schedule.isUnable)
        #expect(run(id, 1) == [.complete(job: 1)])
        #expect(!schedule.isUnable)
    }

    @Test func cancelledJobHasNoResultsAndItsWorkerServesOthers() {
        let id = worker(2, 1)
        _ = handle(.submitted(job(1, of: 1)))
        _ = handle(.ready(id))
        _ = handle(.submitted(job(2, of: 2)))
        _ = handle(.executing(id, batch: 1))
        #expect(handle(.cancelled(job: 1)).isEmpty)
        // The process does not learn of it.
        #expect(schedule.accepts(id, batch: 1))
        #expect(
            handle(.finished(id, batch: 1, timeouts: 0))
                == [.send(piece(2, 0..<1), batch: 2, to: id)]
        )
        _ = handle(.executing(id, batch: 2))
        #expect(handle(.cancelled(job: 2)).isEmpty)
        #expect(handle(.ended(id)) == [.discard(batch: 2)])
        #expect(schedule.trust(of: 2) == .new)
        #expect(handle(.forgotten(function: 2)).isEmpty)
        #expect(schedule.trust(of: 2) == nil)
    }

    @Test func strikeCountsOnlyInAFreshProcess() {
        var (quarantine, batch) = suspect()
        // The first call passes, so that the process is not fresh for the next piece.
        #expect(
            run(quarantine, batch) == [.send(piece(1, 1..<3), batch: batch + 1, to: quarantine)]
        )
        var deaths = 0
        var skipped: [Action] = []
        while skipped.isEmpty, deaths < 10 {
            batch += 1
            deaths += 1
            _ = handle(.executing(quarantine, batch: batch))
            let actions = handle(.ended(quarantine))
            skipped = actions.filter { if case .skip = $0 { true } else { false } }
            quarantine = worker(3, UInt32(2 + deaths))
            #expect(actions.contains(.start(quarantine)))
            _ = handle(.ready(quarantine))
        }
        // The piece of two calls, and then the first of them twice.
        #expect(deaths == 3)
        #expect(skipped == [.skip(ScriptBlame(job: 1, item: 1, reason: .memory))])
    }
}
