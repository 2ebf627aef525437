import Bytes
import ClusterService
import Consensus
import Foundation
import Orchestration
import Persistence
import Seams
import TestSupport
import Vocabulary

/// Drivers of several nodes, with real files and a simulated network.
final class RaftGroup: Sendable {
    typealias Driver = RaftDriver<ListState>

    final class Wire: RaftTransport {
        let node: NodeNumber
        let group: Guarded<RaftGroup?>

        init(_ node: NodeNumber, _ group: RaftGroup) {
            self.node = node
            self.group = Guarded(group)
        }

        func send(_ bytes: [UInt8], to other: NodeNumber) {
            group.withLock { $0 }?.carry(bytes, from: node, to: other)
        }
    }

    struct Answer: Sendable, Equatable {
        var text: String
        var outcome: ListState.Outcome?
        var error: ClusterError?
    }

    struct Core: Sendable {
        var drivers: [NodeNumber: Driver] = [:]
        var boots: UInt64 = 0
        var answers: [Answer] = []
        /// The first frame that was sent, for tests that corrupt it.
        var frames: [[UInt8]] = []
    }

    let world: RaftWorld
    let history = History()
    let core = Guarded(Core())
    let change: @Sendable (inout RaftDriverSettings) -> Void
    let ballast: Int

    /// Node 1 founds the group; the others wait for an invitation.
    init(
        _ world: RaftWorld,
        nodes: UInt16,
        ballast: Int = 0,
        change: @escaping @Sendable (inout RaftDriverSettings) -> Void = { _ in }
    ) throws {
        self.world = world
        self.change = change
        self.ballast = ballast
        for number in 1...nodes {
            let node = NodeNumber(number)
            let store = try ControlStore(disk: FileDisk(), directory: directory(node))
            if number == 1 {
                try RaftBeginning.found(store, node: node, state: [10, 10])
            } else {
                try RaftBeginning.join(store, emptyState: [10, 10])
            }
            try store.close()
            try start(node)
        }
    }

    func directory(_ node: NodeNumber) -> String { "\(world.root)/\(node)" }

    var drivers: [NodeNumber: Driver] { core.withLock { $0.drivers } }

    func driver(_ number: UInt16) -> Driver {
        guard let driver = drivers[NodeNumber(number)] else {
            preconditionFailure("node \(number) runs")
        }
        return driver
    }

    // MARK: Lives

    func start(_ node: NodeNumber) throws {
        let boot = core.withLock { core in
            core.boots += 1
            return core.boots
        }
        var settings = RaftDriverSettings(node: node, boot: boot)
        change(&settings)
        let environment = Environment.doubles(
            time: world,
            entropy: world,
            lanes: world,
            trace: RecordingTrace(threshold: .fault)
        )
        let name = "\(node).\(boot)"
        let driver = try Driver(
            settings,
            store: try ControlStore(disk: FileDisk(), directory: directory(node)),
            state: ListState(history, ballast: ballast),
            transport: Wire(node, self),
            environment: environment,
            lane: world.makeLane("\(name).control"),
            diskLane: world.makeLane("\(name).disk")
        )
        let history = history
        driver.onChange = { history.saw($0, of: node) }
        core.withLock { $0.drivers[node] = driver }
        try driver.start()
        history.saw(driver.status, of: node)
    }

    /// Like `kill -9`: pending work on its lanes never runs.
    func kill(_ node: NodeNumber) {
        guard let driver = core.withLock({ $0.drivers.removeValue(forKey: node) }) else { return }
        world.drop(lanes: "\(node).\(driver.settings.boot).")
        driver.onChange = nil
    }

    func restart(_ node: NodeNumber) throws {
        kill(node)
        try start(node)
    }

    // MARK: Network

    func carry(_ bytes: [UInt8], from: NodeNumber, to: NodeNumber) {
        core.withLock { if $0.frames.count < 400 { $0.frames.append(bytes) } }
        let (isLost, copies, delayMax) = world.core.withLock { core in
            let isCut = core.cut.contains([from.value, to.value])
            let isLost = Int(core.dice.next() >> 33) % 256 < core.loss
            let isDoubled = Int(core.dice.next() >> 33) % 256 < core.doubling
            return (isCut || isLost, isDoubled ? 2 : 1, core.delayMax)
        }
        if isLost { return }
        for _ in 0..<copies {
            let delay = UInt64(world.below(Int(delayMax)))
            // Posted on the lane only on arrival: messages overtake each other.
            _ = world.post("wire \(world.next())", after: delay, isTimer: false) { [weak self] in
                self?.drivers[to]?.receive(bytes, from: from)
            }
        }
    }

    func isolate(_ number: UInt16) {
        for other in UInt16(1)...9 where other != number {
            world.core.withLock { core in
                core.cut.insert([number, other])
                core.cut.insert([other, number])
            }
        }
    }

    func heal() { world.core.withLock { $0.cut = [] } }

    // MARK: Asking

    var leader: NodeNumber? {
        drivers.values.first { $0.status.isReadyToLead }?.settings.node
    }

    func settled(_ secondsMax: UInt64 = 30) -> NodeNumber? {
        _ = world.run(secondsMax: secondsMax) { leader != nil }
        return leader
    }

    @discardableResult
    func propose(
        _ number: UInt16,
        _ text: String,
        timeout: UInt64 = 20_000_000_000,
        isLeaders: Bool = false
    ) -> String {
        driver(number).propose(
            timeout: timeout,
            isLeaders: isLeaders,
            encode: { ListState.Command($0, text).bytes },
            done: { result in
                let answer =
                    switch result {
                    case .success(let outcome): Answer(text: text, outcome: outcome)
                    case .failure(let error): Answer(text: text, error: error)
                    }
                self.core.withLock { $0.answers.append(answer) }
            }
        )
        return text
    }

    func answer(to text: String) -> Answer? {
        core.withLock { $0.answers.first { $0.text == text } }
    }

    func lines(_ number: UInt16) -> [String] { driver(number).state.lines }

    /// Adds voters until these are the voters, one after the other.
    func grow(to voters: [UInt16]) -> Bool {
        for number in voters where number != 1 {
            guard change([.addLearner(NodeNumber(number))], on: 1),
                world.run(until: { driver(number).status.applied >= driver(1).status.commit }),
                change([.addVoter(NodeNumber(number))], on: 1)
            else { return false }
        }
        return true
    }

    func change(_ steps: [ConfigurationChange.Step], on number: UInt16) -> Bool {
        let result = Guarded<Result<VoterConfiguration, ClusterError>?>(nil)
        driver(number).change(ConfigurationChange(steps)) { outcome in
            result.withLock { $0 = outcome }
        }
        _ = world.run { result.withLock { $0 != nil } }
        guard case .success? = result.withLock({ $0 }) else { return false }
        return true
    }

    /// Waits until all running nodes have applied the same entries.
    func converge() -> Bool {
        world.run {
            let states = drivers.values.map { ($0.status.applied, $0.state.lines) }
            guard let first = states.first, leader != nil else { return false }
            return states.allSatisfy { $0.0 == first.0 && $0.1 == first.1 }
        }
    }

    /// Checks that every acknowledged proposal is in every state once, and that none is there
    /// twice.
    func violations() -> [String] {
        var found = history.violations
        let taken = core.withLock { core in
            core.answers.filter { if case .taken? = $0.outcome { true } else { false } }.map(\.text)
        }
        for (node, driver) in drivers.sorted(by: { $0.key < $1.key }) {
            let lines = driver.state.lines
            if Set(lines).count != lines.count { found.append("\(node) applied one twice") }
            for text in Set(taken).subtracting(lines) { found.append("\(node) lost \(text)") }
        }
        return found
    }
}
