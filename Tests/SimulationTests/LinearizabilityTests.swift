import Simulation
import Testing

/// Hand-made histories: linearizable ones that look wrong, and wrong ones that look linearizable.
@Suite struct LinearizabilityTests {
    private typealias Action = RegisterOperation.Action

    private func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

    private func operation(
        _ action: RegisterOperation.Action,
        _ called: UInt64,
        _ returned: UInt64?
    ) -> RegisterOperation {
        RegisterOperation(action, called: called, returned: returned)
    }

    private func isExplained(_ operations: [RegisterOperation]) -> Bool {
        if case .explained = Linearizability.check(operations) { return true }
        return false
    }

    @Test func emptyHistoryIsLinearizable() { #expect(isExplained([])) }

    @Test func sequentialOperationsKeepTheirOrder() {
        let history = [
            operation(.read(nil), 0, 1), operation(.set(bytes("a")), 2, 3),
            operation(.read(bytes("a")), 4, 5), operation(.remove, 6, 7),
            operation(.read(nil), 8, 9),
        ]
        #expect(isExplained(history))
        #expect(isExplained(history.reversed()))
    }

    @Test func staleReadIsNotLinearizable() {
        let stale = operation(.read(bytes("a")), 6, 7)
        let history = [
            operation(.set(bytes("a")), 0, 1), operation(.set(bytes("b")), 2, 3), stale,
        ]
        let decision = Linearizability.check(history)
        #expect(decision == .impossible(stale, states: [bytes("b")]))
    }

    @Test func lostWriteIsNotLinearizable() {
        #expect(!isExplained([operation(.set(bytes("a")), 0, 1), operation(.read(nil), 2, 3)]))
    }

    @Test func concurrentWritesHaveEitherOrder() {
        let writes = [operation(.set(bytes("a")), 0, 10), operation(.set(bytes("b")), 5, 15)]
        #expect(isExplained(writes + [operation(.read(bytes("a")), 20, 21)]))
        #expect(isExplained(writes + [operation(.read(bytes("b")), 20, 21)]))
        #expect(
            !isExplained(
                writes + [
                    operation(.read(bytes("a")), 20, 21), operation(.read(bytes("b")), 22, 23),
                ]
            )
        )
    }

    /// Two consecutive readers during a write: once a read returns the value, later reads do too.
    @Test func valueThatWasReadStaysVisible() {
        let write = operation(.set(bytes("b")), 2, 50)
        let start = [operation(.set(bytes("a")), 0, 1), write]
        let new = operation(.read(bytes("b")), 10, 12)
        let old = operation(.read(bytes("a")), 14, 16)
        #expect(!isExplained(start + [new, old]))
        // The same reads are linearizable if they are concurrent.
        let overlapping = operation(.read(bytes("a")), 11, 16)
        #expect(isExplained(start + [new, overlapping]))
    }

    @Test func writeOfUnknownOutcomeTakesEffectLateOrNever() {
        let start = [operation(.set(bytes("a")), 0, 1), operation(.set(bytes("b")), 2, nil)]
        #expect(isExplained(start + [operation(.read(bytes("a")), 90, 91)]))
        #expect(isExplained(start + [operation(.read(bytes("b")), 90, 91)]))
        #expect(
            isExplained(
                start + [
                    operation(.read(bytes("a")), 10, 11), operation(.read(bytes("b")), 90, 91),
                ]
            )
        )
        // But not twice, and not before its call.
        #expect(
            !isExplained(
                start + [
                    operation(.read(bytes("b")), 10, 11), operation(.set(bytes("c")), 12, 13),
                    operation(.read(bytes("b")), 14, 15),
                ]
            )
        )
        #expect(!isExplained([operation(.read(bytes("b")), 0, 1)] + start))
    }

    @Test func addReplaceAndRemoveObserveTheState() {
        #expect(isExplained([operation(.add(bytes("a")), 0, 1)]))
        #expect(!isExplained([operation(.replace(bytes("a")), 0, 1)]))
        #expect(!isExplained([operation(.remove, 0, 1)]))
        let there = operation(.set(bytes("a")), 0, 1)
        #expect(!isExplained([there, operation(.add(bytes("b")), 2, 3)]))
        #expect(isExplained([there, operation(.replace(bytes("b")), 2, 3)]))
        // A refusal is a read: EXISTS and NOT_FOUND.
        #expect(isExplained([there, operation(.found(except: nil), 2, 3)]))
        #expect(!isExplained([operation(.found(except: nil), 2, 3)]))
        #expect(!isExplained([there, operation(.read(nil), 2, 3)]))
    }

    @Test func compareAndSetRequiresItsExpectedValue() {
        let there = operation(.set(bytes("a")), 0, 1)
        let swap = Action.compareAndSet(expected: bytes("a"), new: bytes("b"))
        #expect(isExplained([there, operation(swap, 2, 3), operation(.read(bytes("b")), 4, 5)]))
        #expect(
            !isExplained([there, operation(.set(bytes("c")), 2, 3), operation(swap, 4, 5)])
        )
        // Two operations succeeded with the same expected version.
        let other = Action.compareAndSet(expected: bytes("a"), new: bytes("c"))
        #expect(!isExplained([there, operation(swap, 2, 10), operation(other, 2, 10)]))
        // One was refused although the expected version was current all the time.
        #expect(!isExplained([there, operation(.found(except: bytes("a")), 2, 3)]))
    }

    @Test func counterShowsAWriteAppliedTwice() {
        func add(_ result: UInt64?, _ called: UInt64, _ returned: UInt64?) -> RegisterOperation {
            operation(.increment(by: 2, initial: 10, result: result), called, returned)
        }
        #expect(isExplained([add(10, 0, 1), add(12, 2, 3), add(14, 4, 5)]))
        #expect(isExplained([add(12, 0, 9), add(10, 0, 9)]))
        #expect(!isExplained([add(10, 0, 1), add(14, 2, 3)]))
        #expect(!isExplained([add(10, 0, 1), add(12, 2, 3), add(12, 4, 5)]))
        // Of two increments of unknown outcome both may count, but not a third.
        let unknown = [add(10, 0, 1), add(nil, 2, nil), add(nil, 3, nil)]
        #expect(isExplained(unknown + [operation(.read(bytes("14")), 9, 10)]))
        #expect(!isExplained(unknown + [operation(.read(bytes("16")), 9, 10)]))
    }

    /// Operations before the ninth write of unknown outcome are checked, later ones are not.
    @Test func keyIsRetiredAfterEightUnknownOutcomes() {
        var history = [operation(.set(bytes("start")), 0, 1)]
        for number in 0..<12 {
            let time = 10 * UInt64(number + 1)
            history.append(operation(.set(bytes("\(number)")), time, nil))
            history.append(operation(.read(bytes("start")), time + 1, time + 2))
        }
        let bad = operation(.read(bytes("unwritten")), 500, 501)
        #expect(Linearizability.check(history + [bad]) == .explained(checked: 9))
        let early = operation(.read(bytes("unwritten")), 45, 46)
        #expect(!isExplained(history + [early]))
    }

    /// A thousand operations of eight clients, some of unknown outcome, from a real register are
    /// linearizable; with one result replaced by that of another time they are not.
    @Test func longHistoryIsCheckedInReasonableTime() {
        var random = Dice(state: 7)
        for _ in 0..<5 {
            var history: [RegisterOperation] = []
            var state: [UInt8]?
            var free = [UInt64](repeating: 0, count: 8)
            var reads: [Int] = []
            var moment: UInt64 = 0
            for number in 0..<1_000 {
                let client = random.draw(8)
                let called =
                    max(free[client], moment > 20 ? moment - 20 : 0)
                    + UInt64(random.draw(5))
                // It takes effect at `moment`, in the order of numbers.
                moment = max(called, moment + 1)
                let returned = moment + UInt64(random.draw(12)) + 1
                free[client] = returned + 1
                var one = RegisterOperation(.read(state), called: called, returned: returned)
                switch random.draw(4) {
                case 0:
                    state = bytes("\(number)")
                    one.action = .set(bytes("\(number)"))
                    if number % 200 == 0 { one.returned = nil }
                case 1 where state != nil:
                    state = nil
                    one.action = .remove
                default: reads.append(history.count)
                }
                history.append(one)
            }
            guard case .explained(let checked) = Linearizability.check(history) else {
                Issue.record("a register's own history was not explained")
                return
            }
            #expect(checked > 990)
            history[reads[reads.count / 2]].action = .read(bytes("unwritten"))
            #expect(!isExplained(history))
        }
    }

    private struct Dice {
        var state: UInt64

        mutating func draw(_ count: Int) -> Int {
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return Int(state >> 33) % count
        }
    }
}
