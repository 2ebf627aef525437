import Testing
import ViewService

/// When an index frees what it keeps in memory for queries.
@Suite struct IdleRuleTests {
    /// A check, and what precedes it.
    struct Step {
        /// The time, in minutes.
        var minutes: Double
        /// Whether a query has begun since the check before.
        var isMarked = false
        /// Whether a query reads the index.
        var isInUse = false
    }

    struct Case: CustomTestStringConvertible {
        let testDescription: String
        let steps: [Step]
        /// The checks that free the memory.
        let freeing: [Int]
    }

    static let cases = [
        Case(
            testDescription: "index that was never used frees nothing",
            steps: [Step(minutes: 0), Step(minutes: 1), Step(minutes: 9)],
            freeing: []
        ),
        Case(
            testDescription: "memory is freed once, a minute after the check that met a query",
            steps: [
                Step(minutes: 10, isMarked: true), Step(minutes: 10.75), Step(minutes: 11),
                Step(minutes: 13), Step(minutes: 14, isMarked: true), Step(minutes: 15),
            ],
            freeing: [2, 5]
        ),
        Case(
            testDescription: "later query postpones the freeing",
            steps: [
                Step(minutes: 1, isMarked: true), Step(minutes: 2, isMarked: true),
                Step(minutes: 2.75), Step(minutes: 3),
            ],
            freeing: [3]
        ),
        Case(
            testDescription: "long query postpones the freeing until it ends",
            steps: [
                Step(minutes: 1, isMarked: true), Step(minutes: 2, isInUse: true),
                Step(minutes: 4, isInUse: true), Step(minutes: 4.75), Step(minutes: 5),
            ],
            freeing: [4]
        ),
    ]

    @Test(arguments: cases)
    func memoryIsFreedAMinuteAfterTheLastQuery(_ test: Case) {
        var rule = IdleRule()
        var freeing: [Int] = []
        for (place, step) in test.steps.enumerated() {
            if step.isMarked { rule.mark() }
            let now = UInt64(step.minutes * Double(IdleRule.idleNanosecondsMin))
            if rule.check(now, isInUse: step.isInUse) { freeing.append(place) }
        }
        #expect(freeing == test.freeing)
    }
}
