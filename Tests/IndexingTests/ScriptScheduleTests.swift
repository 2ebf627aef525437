import Indexing
import Testing

/// The schedule of script workers, as scripts of events and expected actions.
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

    private func job(_ number: UInt64, functions: Int = 1, items: Int = 8) -> ScriptJob {
        ScriptJob(number: number, functionCount: functions, itemCount: items)
    }

    private func piece(_ job: UInt64, _ items: Range<Int>, _ functions: Range<Int> = 0..<1)
        -> ScriptPiece
    {
        ScriptPiece(job: job, functions: functions, items: items)
    }

    @Test(arguments: [(1, 1), (2, 1), (3, 2), (5, 4), (64, 4)])
    func oneProcessorIsLeftToTheNode(processors: Int, workers: Int) {
        #expect(ScriptScheduleLimits(processors: processors).workersMax == workers)
    }

    /// Submits one job and starts a worker with it.
    private func begin(_ first: ScriptJob) -> ScriptWorkerID {
        let id = worker(0, 1)
        #expect(handle(.submitted(first)) == [.start(id)])
        let whole = piece(first.number, 0..<first.itemCount, 0..<first.functionCount)
        #expect(handle(.ready(id)) == [.send(whole, batch: 1, to: id)])
        return id
    }

    @Test func jobRunsAndCompletesFunctionByFunction() {
        let id = begin(job(7, functions: 2))
        #expect(!schedule.accepts(worker(0, 2), batch: 1))
        #expect(!schedule.accepts(id, batch: 2))
        for isLast in [false, true] {
            #expect(handle(.executing(id, batch: 1)).isEmpty)
            #expect(schedule.accepts(id, batch: 1))
            #expect(handle(.finished(id, batch: 1)) == (isLast ? [.complete(job: 7)] : []))
        }
        #expect(!schedule.accepts(id, batch: 1))
    }

    @Test func workersAreStartedForTheWorkThereIsAndHaveFourFramesEach() {
        #expect(handle(.submitted(job(1))) == [.start(worker(0, 1))])
        #expect(handle(.submitted(job(2))) == [.start(worker(1, 2))])
        for number in 3...20 { #expect(handle(.submitted(job(UInt64(number)))).isEmpty) }
        #expect(!schedule.hasRoom)
        #expect(handle(.ready(worker(0, 1))).count == 4)
        #expect(handle(.ready(worker(1, 2))).count == 4)
        #expect(handle(.executing(worker(1, 2), batch: 5)).isEmpty)
        #expect(
            handle(.finished(worker(1, 2), batch: 5))
                == [.complete(job: 5), .send(piece(9, 0..<8), batch: 9, to: worker(1, 2))]
        )
        #expect(schedule.workerCount == 2)
    }

    @Test func unusedWorkerIsStoppedAfterFiveMinutes() throws {
        let id = begin(job(1))
        _ = handle(.executing(id, batch: 1))
        _ = handle(.finished(id, batch: 1))
        let deadline = try #require(schedule.nextDeadline)
        #expect(deadline == now + 300_000_000_000)
        now = deadline - 1
        #expect(handle(.timer).isEmpty)
        now = deadline
        #expect(handle(.timer) == [.stop(id, .idle)])
        #expect(handle(.timer).isEmpty)
        #expect(schedule.nextDeadline == nil)
        // A job that comes meanwhile does not wait for the end of the process.
        #expect(handle(.submitted(job(2))) == [.start(worker(1, 2))])
        #expect(handle(.ended(id)).isEmpty)
        #expect(schedule.failures == 0)
    }

    @Test func workerAboveTheThresholdIsRecycledBetweenFramesWithoutBlame() {
        let id = begin(job(1))
        _ = handle(.executing(id, batch: 1))
        #expect(handle(.measured(id, residentBytes: 160 << 20)).isEmpty)
        // It gets no more frames; another worker does.
        #expect(handle(.submitted(job(2))) == [.start(worker(1, 2))])
        #expect(
            handle(.finished(id, batch: 1)) == [.complete(job: 1), .stop(id, .recycled)]
        )
        #expect(handle(.ended(id)).isEmpty)
        #expect(
            handle(.ready(worker(1, 2)))
                == [.send(piece(2, 0..<8), batch: 2, to: worker(1, 2))]
        )
    }

    @Test func onlyTheExecutingFrameOfADeadWorkerIsSuspect() {
        let id = begin(job(1, functions: 3))
        for number in 2...4 { _ = handle(.submitted(job(UInt64(number)))) }
        _ = handle(.executing(id, batch: 1))
        _ = handle(.finished(id, batch: 1))
        _ = handle(.executing(id, batch: 1))
        #expect(handle(.measured(id, residentBytes: 300 << 20)) == [.stop(id, .memory)])
        // Results that arrive now are not accepted.
        #expect(!schedule.accepts(id, batch: 1))
        #expect(handle(.finished(id, batch: 1)).isEmpty)
        #expect(
            handle(.ended(id))
                == [.discard(batch: 1), .start(worker(0, 3)), .start(worker(2, 4))]
        )
        // The other worker, started for the second job, gets all that is not suspect.
        #expect(
            handle(.ready(worker(1, 2)))
                == [
                    .send(piece(1, 0..<8, 2..<3), batch: 5, to: worker(1, 2)),
                    .send(piece(2, 0..<8), batch: 6, to: worker(1, 2)),
                    .send(piece(3, 0..<8), batch: 7, to: worker(1, 2)),
                    .send(piece(4, 0..<8), batch: 8, to: worker(1, 2)),
                ]
        )
        #expect(
            handle(.ready(worker(2, 4)))
                == [.send(piece(1, 0..<8, 1..<2), batch: 9, to: worker(2, 4))]
        )
    }

    @Test func suspectIsHalvedUntilOneCallEndedAFreshProcessTwice() {
        var id = begin(job(1, items: 4))
        _ = handle(.executing(id, batch: 1))
        var actions = handle(.ended(id))
        var sent: [Range<Int>] = []
        var skipped: [ScriptBlame] = []
        var isComplete = false
        // Item 2 ends its process; everything else passes.
        for _ in 0..<60 where !isComplete {
            var next: [Action] = []
            for action in actions {
                switch action {
                case .start(let started):
                    id = started
                    if id.slot == 2 { next += handle(.ready(id)) }
                case .send(let piece, let batch, let to):
                    #expect(to.slot == 2)
                    sent.append(piece.items)
                    next += handle(.executing(to, batch: batch))
                    next +=
                        piece.items.contains(2)
                        ? handle(.ended(to)) : handle(.finished(to, batch: batch))
                case .stop(let stopped, _): next += handle(.ended(stopped))
                case .skip(let blame): skipped.append(blame)
                case .complete: isComplete = true
                case .discard: break
                }
            }
            actions = next
            if actions.isEmpty, let deadline = schedule.nextDeadline {
                now = max(now, deadline)
                actions = handle(.timer)
            }
        }
        #expect(sent == [0..<4, 0..<2, 2..<4, 2..<3, 2..<3, 3..<4])
        #expect(skipped == [ScriptBlame(job: 1, function: 0, item: 2, reason: .memory)])
        #expect(isComplete)
    }

    @Test func deathBeforeTheFirstCallMakesTheOldestFrameSuspect() {
        let id = begin(job(1))
        _ = handle(.submitted(job(2)))
        #expect(
            handle(.ended(id)).allSatisfy { action in
                if case .start = action { true } else { false }
            }
        )
        now += 200_000_000
        #expect(
            handle(.ready(worker(1, 2))) == [
                .send(piece(2, 0..<8), batch: 3, to: worker(1, 2)), .start(worker(2, 3)),
            ]
        )
    }

    @Test func callThatCouldNotBeInterruptedIsSkippedAtOnce() {
        let id = begin(job(1, functions: 2))
        _ = handle(.executing(id, batch: 1))
        // The next worker is started while this one ends.
        let next = worker(1, 2)
        #expect(
            handle(.overran(id, batch: 1, item: 3)) == [.stop(id, .overran), .start(next)]
        )
        let blame = ScriptBlame(job: 1, function: 0, item: 3, reason: .timedOut)
        #expect(handle(.ended(id)) == [.discard(batch: 1), .skip(blame)])
        #expect(
            handle(.ready(next))
                == [
                    .send(piece(1, 0..<3), batch: 2, to: next),
                    .send(piece(1, 4..<8), batch: 3, to: next),
                    .send(piece(1, 0..<8, 1..<2), batch: 4, to: next),
                ]
        )
        // The end of a process without a result delays the start of another.
        #expect(schedule.nextDeadline == now + 100_000_000)
        now += 100_000_000
        #expect(handle(.timer) == [.start(worker(0, 3))])
    }

    @Test func workerThatRepliesOutOfOrderIsStopped() {
        let id = begin(job(1))
        _ = handle(.submitted(job(2)))
        #expect(handle(.executing(id, batch: 2)) == [.stop(id, .violated)])
    }

    @Test func workerWithoutProgressIsStopped() throws {
        let id = begin(job(1, items: 2))
        _ = handle(.executing(id, batch: 1))
        now += 49_999_999_999
        #expect(handle(.timer).isEmpty)
        now += 1
        #expect(handle(.timer) == [.stop(id, .hung), .start(worker(1, 2))])
    }

    @Test func eventsOfADeadGenerationDoNothing() {
        let id = begin(job(1))
        _ = handle(.executing(id, batch: 1))
        _ = handle(.ended(id))
        let before = schedule.nextDeadline
        for event in [
            .ended(id), .ready(id), .executing(id, batch: 1), .finished(id, batch: 1),
            .violated(id), .overran(id, batch: 1, item: 0), .measured(id, residentBytes: .max),
        ] as [ScriptSchedule.Event] {
            #expect(handle(event).isEmpty, "\(event)")
        }
        #expect(schedule.nextDeadline == before)
    }

    @Test func brokenProgramIsStartedEverLessOften() throws {
        _ = handle(.submitted(job(1)))
        var pauses: [UInt64] = []
        var id = worker(0, 1)
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
        _ = handle(.executing(id, batch: 1))
        #expect(handle(.finished(id, batch: 1)) == [.complete(job: 1)])
        #expect(!schedule.isUnable)
    }

    @Test func cancelledJobHasNoResultsAndIsNotSuspected() {
        let id = begin(job(1))
        _ = handle(.submitted(job(2)))
        _ = handle(.executing(id, batch: 1))
        #expect(handle(.cancelled(job: 1)).isEmpty)
        #expect(!schedule.accepts(id, batch: 1))
        let actions = handle(.ended(id))
        #expect(actions.first == .discard(batch: 1))
        now = schedule.nextDeadline ?? now
        let later = actions + handle(.timer)
        #expect(!later.contains { if case .start(let id) = $0 { id.slot == 2 } else { false } })
    }

    @Test func strikeCountsOnlyInAFreshProcess() {
        let id = begin(job(1, items: 2))
        _ = handle(.executing(id, batch: 1))
        _ = handle(.ended(id))
        now += 100_000_000
        // The first half passes, so that the process is not fresh for the second one.
        var penalty = worker(2, 2)
        #expect(handle(.timer) == [.start(penalty)])
        #expect(handle(.ready(penalty)) == [.send(piece(1, 0..<2), batch: 2, to: penalty)])
        _ = handle(.executing(penalty, batch: 2))
        penalty = worker(2, 3)
        #expect(handle(.ended(worker(2, 2))) == [.discard(batch: 2), .start(penalty)])
        #expect(handle(.ready(penalty)) == [.send(piece(1, 0..<1), batch: 3, to: penalty)])
        _ = handle(.executing(penalty, batch: 3))
        #expect(
            handle(.finished(penalty, batch: 3))
                == [.send(piece(1, 1..<2), batch: 4, to: penalty)]
        )
        // Three deaths: the first one does not count.
        var blames: [Action] = []
        for generation in 3...5 {
            let batch = UInt32(generation + 1)
            penalty = worker(2, UInt32(generation))
            _ = handle(.ready(penalty))
            _ = handle(.executing(penalty, batch: batch))
            let actions = handle(.ended(penalty))
            let isLast = generation == 5
            blames += actions.filter { if case .skip = $0 { true } else { false } }
            #expect(blames.count == (isLast ? 1 : 0))
            #expect(actions.contains(.start(worker(2, UInt32(generation + 1)))) == !isLast)
        }
    }
}
