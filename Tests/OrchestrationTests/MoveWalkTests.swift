import Orchestration
import Testing
import Vocabulary

/// Moves with random events in any order: every proposal must be valid.
@Suite struct MoveWalkTests {
    @Test(arguments: 0..<10) func randomEventsYieldOnlyValidProposals(_ chunk: UInt64) {
        var ends: [String: Int] = [:]
        for seed in chunk * 400..<chunk * 400 + 400 {
            var walk = Walk(seed)
            for _ in 0..<250 where walk.procedure.outcome == nil && walk.wrong == nil {
                walk.step()
            }
            if let wrong = walk.wrong { Issue.record("seed \(seed): \(wrong)") }
            switch walk.procedure.outcome {
            case .done: ends["done", default: 0] += 1
            case .stopped: ends["stopped", default: 0] += 1
            case .superseded: ends["superseded", default: 0] += 1
            case .needsPlan: ends["needsPlan", default: 0] += 1
            default: break
            }
        }
        // Walks that never complete a move show nothing.
        #expect(ends["done", default: 0] > 20, "\(ends)")
        #expect(ends.count == 4, "\(ends)")
    }
}

/// One move with random events, and a check of its actions against these events.
private struct Walk {
    private let move: PlannedMove
    private var dice: Dice
    private(set) var procedure: MoveProcedure
    private(set) var wrong: String?
    private var now: UInt64 = 1_000_000_000
    private var fence: UInt64 = 10
    private var high: UInt64 = 100
    private var covered: [NodeNumber: UInt64] = [:]
    private var intact: Set<NodeNumber> = []
    /// The active copy's high seqno when it learned of the target chain.
    private var joint: UInt64?
    private var isJoint = false
    private var isDrained = false
    private var outstanding: MoveAction.Proposal?

    init(_ seed: UInt64) {
        dice = Dice(seed &+ 31)
        let rows: [([UInt16], [UInt16])] = [
            ([1, 2], [1, 3]), ([1, 2], [3, 2]), ([1, 2], [2, 1]), ([1], [2, 3]),
        ]
        let (row, target) = rows[dice.roll(rows.count)]
        move = PlannedMove(
            VBucketID(1),
            from: row.map { NodeNumber($0) },
            to: target.map { NodeNumber($0) }
        )
        procedure = MoveProcedure(move, fence: 10, demand: .memory, now: now)
        check(procedure.begin())
    }

    mutating func step() {
        now += UInt64(dice.roll(200)) * 1_000_000
        let nodes = move.nodes.sorted()
        let node = nodes[dice.roll(nodes.count)]
        switch dice.roll(40) {
        case 0..<18: report(node)
        case 18..<24: if outstanding != nil { apply() }
        case 24..<28: if procedure.wantsTurn(now: now) { send(.turn) }
        case 28..<30:
            isDrained = procedure.step == .handingOver
            send(.drained(position(high), fence: fence))
        case 30: send(.drained(position(high), fence: 9))
        case 31: send(.servesAgain(fence: fence))
        case 32: send(.time)
        case 33:
            intact.remove(node)
            send(.lost(node))
        case 34: send(.returned(node))
        case 35: if dice.roll(12) == 0 { send(.failedOver(node)) }
        case 36: if dice.roll(12) == 0 { send(.stop) }
        case 37: if outstanding != nil, dice.roll(6) == 0 { send(.refused) }
        default:
            now += UInt64(dice.roll(3_000)) * 1_000_000
            send(.time)
        }
    }

    private func position(_ covered: UInt64) -> CopyPosition {
        CopyPosition(branchFence: 5, covered: Seqno(covered))
    }

    private mutating func report(_ node: NodeNumber) {
        let isActive = node == (fence > 10 && isTakenOver ? move.target.first : move.source)
        if isActive { high += UInt64(dice.roll(60)) }
        let behind = min(high, UInt64(dice.roll(3) * dice.roll(150)))
        let has = isActive ? high : high - behind
        let isWhole = isActive || dice.roll(5) > 0
        let isOld = dice.roll(8) == 0
        if !isOld {
            covered[node] = has
            if isWhole { intact.insert(node) } else { intact.remove(node) }
            if isActive, isJoint, joint == nil { joint = high }
        }
        let report = CopyReport(
            vBucket: move.vBucket,
            state: isActive ? .active : .replica,
            fence: isOld ? fence - 1 : fence,
            position: position(has),
            high: Seqno(has),
            persisted: Seqno(has),
            isIntact: isWhole,
            wasCleanStop: false,
            boot: 1
        )
        let high = isActive && isJoint ? joint : nil
        send(.report(node, report, jointHigh: high.map { Seqno($0) }, isReady: true))
    }

    private var isTakenOver: Bool { procedure.step == .cleaning && move.takesOver }

    private mutating func apply() {
        guard let proposal = outstanding else { return }
        outstanding = nil
        switch proposal {
        case .joint: isJoint = true
        case .final, .forgetFormer: break
        case .takeOver, .resume:
            fence += 10
            isJoint = false
            isDrained = false
            joint = nil
            intact = []
            covered = [:]
        }
        send(.applied(fence: fence))
    }

    private mutating func send(_ event: MoveEvent) {
        check(procedure.handle(event, now: now))
        if let next = procedure.nextTime, next + 600_000_000_000 < now { wrong = "time stands" }
    }

    private mutating func check(_ actions: [MoveAction]) {
        for action in actions {
            guard case .propose(let proposal) = action else { continue }
            if outstanding != nil {
                wrong = "\(proposal) while \(String(describing: outstanding)) is open"
            }
            outstanding = proposal
            switch proposal {
            case .joint(let named):
                let others = move.target.filter { $0 != move.source }
                if named != fence || isJoint || !intact.isSuperset(of: others) { fail(proposal) }
            case .final(let named):
                let isSpread = move.target.allSatisfy { covered[$0] ?? 0 >= joint ?? .max }
                if named != fence || !isJoint || move.takesOver || !isSpread { fail(proposal) }
            case .takeOver(let named, _):
                if named != fence || !isJoint || !isDrained { fail(proposal) }
            case .resume(let named): if named != fence { fail(proposal) }
            case .forgetFormer(let named):
                if named != fence || !isTakenOverNow { fail(proposal) }
            }
        }
    }

    private var isTakenOverNow: Bool { fence > 10 && move.takesOver }

    private mutating func fail(_ proposal: MoveAction.Proposal) {
        wrong = "\(proposal), joint \(isJoint), covered \(covered), intact \(intact)"
    }
}
