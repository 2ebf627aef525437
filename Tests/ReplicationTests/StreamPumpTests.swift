import Bytes
import Replication
import Testing
import Vocabulary

@Suite struct StreamPumpTests {
    private typealias Handle = StreamPump.Handle

    /// Takes the next stream and ends its turn.
    @discardableResult
    private func step(
        _ pump: inout StreamPump,
        _ progress: StreamProgress = .again,
        sent: Int = 0,
        isReading: Bool = false,
        isBusy: Bool = false
    ) -> Handle? {
        guard let handle = pump.next() else { return nil }
        let credit = pump.credit(of: handle)
        pump.finish(
            handle,
            progress,
            credit: credit,
            sent: sent,
            isReading: isReading,
            isBusy: isBusy
        )
        return handle
    }

    @Test func streamsAreServedInTurn() {
        var pump = StreamPump(turnBytes: 100)
        let window = pump.addWindow(bytesMax: nil)
        let handles = (0..<3).map { _ in pump.add(window: window) }
        let steps = (0..<6).map { _ in step(&pump, sent: 10) }
        #expect(steps == handles + handles)
        let asleep = (0..<3).map { _ in step(&pump, .asleep) }
        #expect(asleep == handles && !pump.hasWork && pump.next() == nil)
        pump.wake(handles[1])
        pump.wake(handles[1])
        let woken = [step(&pump, .asleep), step(&pump, .asleep)]
        #expect(woken == [handles[1], nil])
    }

    @Test func streamWithoutCreditWaitsForAcknowledgement() {
        var pump = StreamPump(turnBytes: 100)
        let window = pump.addWindow(bytesMax: 150)
        let (first, second) = (pump.add(window: window), pump.add(window: window))
        #expect(pump.credit(of: first) == 100)
        step(&pump, .awaitsCredit, sent: 100)
        #expect(pump.credit(of: second) == 50)
        // One message may exceed the credit.
        step(&pump, .awaitsCredit, sent: 80)
        #expect(pump.credit(of: second) == 0 && !pump.hasWork)
        let isEarly = pump.acknowledge(20, window: window)
        #expect(isEarly && !pump.hasWork)
        let isEnough = pump.acknowledge(60, window: window)
        let steps = [step(&pump), step(&pump)]
        #expect(isEnough && steps == [first, second])
        let isTooMuch = pump.acknowledge(101, window: window)
        #expect(!isTooMuch)
    }

    @Test func readFromDiskReservesItsCredit() {
        var pump = StreamPump(turnBytes: 100)
        let window = pump.addWindow(bytesMax: 120)
        let (reader, other) = (pump.add(window: window), pump.add(window: window))
        step(&pump, .asleep, isReading: true)
        #expect(pump.credit(of: other) == 20)
        step(&pump, .awaitsCredit, sent: 20)
        pump.wake(reader)
        let resumed = step(&pump, .asleep, sent: 40)
        #expect(resumed == reader && pump.window(window).room == 60)
        let woken = step(&pump)
        #expect(woken == other)
    }

    @Test func removalEndsAReservationAndTheHandle() {
        var pump = StreamPump(turnBytes: 100)
        let window = pump.addWindow(bytesMax: 100)
        let (reader, other) = (pump.add(window: window), pump.add(window: window))
        step(&pump, .asleep, isReading: true)
        step(&pump, .awaitsCredit)
        pump.remove(reader)
        let woken = step(&pump, .asleep)
        #expect(woken == other)
        let later = pump.add(window: window)
        #expect(later.index == reader.index && later != reader)
        _ = pump.next()
        pump.wake(reader)
        #expect(!pump.hasWork && pump.credit(of: reader) == 0)
    }

    @Test func renewedWindowHasItsFullCredit() {
        var pump = StreamPump(turnBytes: 100)
        let window = pump.addWindow(bytesMax: 100)
        let stream = pump.add(window: window)
        step(&pump, .awaitsCredit, sent: 100)
        pump.renewWindow(window)
        #expect(pump.hasWork && pump.credit(of: stream) == 100)
    }

    @Test func fewStreamsAreInsideASnapshot() {
        var pump = StreamPump(turnBytes: 100, admittedMax: 2)
        let window = pump.addWindow(bytesMax: nil)
        let handles = (0..<4).map { _ in pump.add(window: window) }
        let first = step(&pump, isBusy: true)
        let again = step(&pump, .asleep, isBusy: true)
        #expect(first == handles[0] && again == handles[0])
        let second = step(&pump, .asleep, isBusy: true)
        #expect(second == handles[1] && !pump.hasWork)
        pump.wake(handles[0])
        let rested = step(&pump, .asleep)
        let third = step(&pump)
        #expect(rested == handles[0] && third == handles[2])
        pump.remove(handles[1])
        let fourth = step(&pump, isBusy: true)
        #expect(fourth == handles[3])
    }

    /// Compares the pump with lists: nothing that was removed is stepped, no window is exceeded by more
    /// than a step, and no stream with work and credit is passed over.
    @Test(arguments: 0..<40) func randomUseNeverStarvesAStream(_ seed: UInt64) {
        var random = SeededRandom(seed: seed)
        var pump = StreamPump(turnBytes: 100, admittedMax: seed % 2 == 0 ? nil : 3)
        let windows = (0..<3).map { _ in pump.addWindow(bytesMax: 250) }
        /// By stream: its window, and whether it has work.
        var streams: [Handle: (window: Int, hasWork: Bool)] = [:]
        var outstanding = [0, 0, 0]
        for _ in 0..<3_000 {
            switch random.below(10) {
            case 0 where streams.count < 12:
                let window = random.below(3)
                streams[pump.add(window: windows[window])] = (window, true)
            case 1:
                guard let handle = streams.keys.min(by: { $0.number < $1.number }) else { continue }
                streams[handle] = nil
                pump.remove(handle)
            case 2:
                guard let handle = streams.keys.max(by: { $0.number < $1.number }) else { continue }
                streams[handle]?.hasWork = true
                pump.wake(handle)
            case 3, 4:
                let window = random.below(3)
                let bytes = random.below(outstanding[window] + 1)
                outstanding[window] -= bytes
                let isPossible = pump.acknowledge(bytes, window: windows[window])
                #expect(isPossible)
            default:
                guard let handle = pump.next() else {
                    let hasStarved = streams.values.contains { stream in
                        stream.hasWork && pump.window(windows[stream.window]).room > 0
                    }
                    #expect(!hasStarved || seed % 2 == 1)
                    continue
                }
                guard let window = streams[handle]?.window else {
                    Issue.record("seed \(seed): a removed stream is stepped")
                    continue
                }
                let credit = pump.credit(of: handle)
                #expect(credit <= 100 && outstanding[window] <= 250 + 20)
                let sent = credit == 0 ? 0 : random.below(credit) + random.below(20)
                outstanding[window] += sent
                let isAwaiting = credit == 0
                let isAsleep = !isAwaiting && random.below(3) == 0
                streams[handle]?.hasWork = !isAsleep
                pump.finish(
                    handle,
                    isAwaiting ? .awaitsCredit : isAsleep ? .asleep : .again,
                    credit: credit,
                    sent: sent,
                    isReading: false,
                    isBusy: random.below(4) == 0
                )
            }
        }
        // Every stream is stepped to its end.
        for handle in streams.keys { pump.wake(handle) }
        for window in windows.indices {
            _ = pump.acknowledge(outstanding[window], window: windows[window])
        }
        while let handle = pump.next() {
            streams[handle]?.hasWork = false
            pump.finish(handle, .asleep, credit: 100, sent: 0, isReading: false)
        }
        #expect(streams.values.allSatisfy { !$0.hasWork }, "seed \(seed)")
    }
}

extension SeededRandom {
    fileprivate mutating func below(_ bound: Int) -> Int { Int(next() % UInt64(bound)) }
}
