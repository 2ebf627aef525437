import Orchestration
import Vocabulary

/// A move driven step by step by a test; times in milliseconds.
struct MoveCourse {
    var procedure: MoveProcedure
    var now: UInt64 = 1_000
    var boot: UInt64 = 1

    init(
        _ row: [UInt16],
        _ target: [UInt16],
        demand: PersistDemand = .memory,
        beginning: MoveProcedure.Beginning = .row
    ) {
        let move = PlannedMove(
            VBucketID(17),
            from: row.map { NodeNumber($0) },
            to: target.map { NodeNumber($0) }
        )
        procedure = MoveProcedure(
            move,
            fence: 10,
            demand: demand,
            now: 1_000_000_000,
            beginning: beginning
        )
    }

    mutating func handle(_ event: MoveEvent) -> [MoveAction] {
        procedure.handle(event, now: now * 1_000_000)
    }

    /// Sends a copy's report: its covered and persisted seqnos.
    mutating func reports(
        _ node: UInt16,
        _ covered: UInt64,
        disk: UInt64? = nil,
        isIntact: Bool = true,
        hasCaughtUp: Bool? = nil,
        joint: UInt64? = nil,
        state: VBucketState = .replica,
        isReady: Bool = true,
        fence: UInt64? = nil,
        history: UInt64 = 1
    ) -> [MoveAction] {
        let report = CopyReport(
            vBucket: VBucketID(17),
            state: state,
            fence: fence ?? procedure.fence,
            position: CopyPosition(branchFence: 5, covered: Seqno(covered)),
            history: VBucketUUID(history),
            high: Seqno(covered),
            persisted: Seqno(disk ?? covered),
            isIntact: isIntact,
            hasCaughtUp: hasCaughtUp,
            wasCleanStop: false,
            boot: boot
        )
        return handle(
            .report(
                NodeNumber(node),
                report,
                jointHigh: joint.map { Seqno($0) },
                isReady: isReady
            )
        )
    }

    mutating func advanceTime(_ milliseconds: UInt64) -> [MoveAction] {
        now += milliseconds
        return handle(.time)
    }

    var why: String? {
        procedure.obstacle?.sentence(bucket: "travel") { "db\($0.value)" }
    }

    /// A move from [1, 2] to [3, 2] that waits for its takeover.
    static func waitingForItsTurn() -> MoveCourse {
        var course = MoveCourse([1, 2], [3, 2])
        _ = course.procedure.begin()
        _ = course.reports(1, 100, state: .active)
        _ = course.reports(2, 100)
        _ = course.reports(3, 100)
        _ = course.reports(3, 100)
        _ = course.handle(.applied(fence: 10))
        _ = course.reports(1, 110, joint: 110, state: .active)
        _ = course.reports(2, 110)
        _ = course.reports(3, 110)
        return course
    }
}
