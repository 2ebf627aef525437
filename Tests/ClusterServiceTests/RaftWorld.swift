import Bytes
import ClusterService
import Consensus
import Credentials
import Foundation
import Orchestration
import Persistence
import Seams
import Vocabulary

/// A test on one thread: lanes take turns by the seed, and time passes when all are idle.
final class RaftWorld: Sendable {
    struct Work: Sendable {
        var at: UInt64
        var order: UInt64
        var lane: String
        var isTimer: Bool
        var run: @Sendable () -> Void
    }

    struct Core: Sendable {
        var now: UInt64 = 1_000_000_000
        var order: UInt64 = 0
        var works: [Work] = []
        var dice: SeededRandom
        /// Probabilities for each message, in 1/256.
        var loss = 0
        var doubling = 0
        var delayMax: UInt64 = 2_000_000
        /// One-way links that lose every message.
        var cut: Set<[UInt16]> = []
    }

    let core: Guarded<Core>
    let root: String

    init(seed: UInt64) {
        core = Guarded(Core(dice: SeededRandom(seed: seed)))
        let memory = "/dev/shm"
        let base =
            FileManager.default.isWritableFile(atPath: memory)
            ? memory : FileManager.default.temporaryDirectory.path
        root = "\(base)/divan-raft-\(UUID().uuidString)"
    }

    deinit { try? FileManager.default.removeItem(atPath: root) }

    var now: UInt64 { core.withLock { $0.now } }

    func below(_ count: Int) -> Int { core.withLock { Int($0.dice.next() >> 33) % count } }

    func post(_ lane: String, after: UInt64, isTimer: Bool, _ run: @escaping @Sendable () -> Void)
        -> UInt64
    {
        core.withLock { core in
            core.order += 1
            core.works.append(
                Work(
                    at: core.now + after,
                    order: core.order,
                    lane: lane,
                    isTimer: isTimer,
                    run: run
                )
            )
            return core.order
        }
    }

    func cancel(_ order: UInt64) {
        core.withLock { $0.works.removeAll { $0.order == order } }
    }

    /// Removes the lanes of a process that has ended.
    func drop(lanes prefix: String) {
        core.withLock { $0.works.removeAll { $0.lane.hasPrefix(prefix) } }
    }

    /// Runs a due item of a random lane, each lane's own in order; if none is due, time passes.
    func step() {
        let work: Work? = core.withLock { core in
            guard !core.works.isEmpty else { return nil }
            let first = core.works.map(\.at).min() ?? core.now
            core.now = max(core.now, first)
            var heads: [String: Int] = [:]
            for (place, work) in core.works.enumerated() where work.at <= core.now {
                let key = work.lane
                if let other = heads[key],
                    (core.works[other].at, core.works[other].order) < (work.at, work.order)
                {
                    continue
                }
                heads[key] = place
            }
            let places = heads.values.sorted()
            let place = places[Int(core.dice.next() >> 33) % places.count]
            return core.works.remove(at: place)
        }
        work?.run()
    }

    /// Lets time pass.
    func run(milliseconds: UInt64) {
        let end = now + milliseconds * 1_000_000
        while let next = core.withLock({ $0.works.map(\.at).min() }), next <= end { step() }
        core.withLock { $0.now = max($0.now, end) }
    }

    /// Runs until the condition holds; false if it does not in time.
    func run(secondsMax: UInt64 = 30, until isDone: () -> Bool) -> Bool {
        let end = now + secondsMax * 1_000_000_000
        while !isDone() {
            guard let next = core.withLock({ $0.works.map(\.at).min() }), next <= end else {
                return isDone()
            }
            step()
        }
        return true
    }
}

extension RaftWorld: LaneFactory {
    var reactorCount: Int { 1 }

    func makeLane(_ name: String, isPatient: Bool) -> any Lane { WorldLane(name, self) }
}

extension RaftWorld: TimeSource {
    func monotonicNanoseconds() -> UInt64 { now }

    func wallNanoseconds() -> UInt64 { now + 1_700_000_000_000_000_000 }
}

extension RaftWorld: Entropy {
    func next() -> UInt64 { core.withLock { $0.dice.next() } }
}

final class WorldLane: Lane {
    let name: String
    private let world: RaftWorld

    init(_ name: String, _ world: RaftWorld) {
        self.name = name
        self.world = world
    }

    func post(_ work: @escaping @Sendable () -> Void) {
        // Disk writes take a random time.
        let delay = name.hasSuffix("disk") ? UInt64(world.below(8_000_000)) : 0
        _ = world.post(name, after: delay, isTimer: false, work)
    }

    func post(after nanoseconds: UInt64, _ work: @escaping @Sendable () -> Void) -> LaneTimer {
        let order = world.post(name, after: nanoseconds, isTimer: true, work)
        return LaneTimer { [world] in world.cancel(order) }
    }

    func stop() { world.drop(lanes: name) }
}

/// A register of all applied commands; each proposal is applied once.
final class ListState: ReplicatedState {
    struct Command: Hashable {
        var name: ProposalNumber
        var text: String

        var bytes: [UInt8] {
            Array("\(name.node.value) \(name.boot) \(name.number) \(text)".utf8)
        }

        init(_ name: ProposalNumber, _ text: String) {
            (self.name, self.text) = (name, text)
        }

        init(_ bytes: [UInt8]) {
            let parts = String(decoding: bytes, as: UTF8.self)
                .split(separator: " ", maxSplits: 3, omittingEmptySubsequences: false)
            guard parts.count == 4, let node = UInt16(parts[0]), let boot = UInt64(parts[1]),
                let number = UInt64(parts[2])
            else { preconditionFailure("a command of this test, not \(parts)") }
            name = ProposalNumber(node: NodeNumber(node), boot: boot, number: number)
            text = String(parts[3])
        }
    }

    struct Life: Hashable {
        var node: NodeNumber
        var boot: UInt64
    }

    enum Outcome: Sendable, Equatable {
        case taken(String, at: UInt64)
        /// This proposal or a later one was applied before.
        case repeated
    }

    var index: UInt64 = 0
    var lines: [String] = []
    var last: [Life: UInt64] = [:]
    /// What all nodes must agree on, by log index.
    let history: History
    let ballast: Int

    init(_ history: History, ballast: Int = 0) {
        self.history = history
        self.ballast = ballast
    }

    func apply(_ command: [UInt8], at index: UInt64) -> AppliedCommand<Outcome> {
        precondition(index == self.index + 1, "in order")
        self.index = index
        history.saw(command, at: index)
        let command = Command(command)
        let life = Life(node: command.name.node, boot: command.name.boot)
        guard command.name.number > last[life] ?? 0 else {
            return AppliedCommand(proposal: command.name, outcome: .repeated)
        }
        last[life] = command.name.number
        lines.append(command.text)
        return AppliedCommand(proposal: command.name, outcome: .taken(command.text, at: index))
    }

    func pass(_ index: UInt64) {
        precondition(index == self.index + 1, "in order")
        self.index = index
        history.saw([], at: index)
    }

    func snapshot() -> @Sendable () -> [UInt8] {
        let (lines, last, ballast) = (lines, last, ballast)
        return {
            var text = lines.joined(separator: "\n") + "\n\n"
            let order = last.sorted { ($0.key.node, $0.key.boot) < ($1.key.node, $1.key.boot) }
            for (life, number) in order {
                text += "\(life.node.value) \(life.boot) \(number)\n"
            }
            return Array(text.utf8) + [UInt8](repeating: 10, count: ballast)
        }
    }

    func restore(_ bytes: [UInt8], at index: UInt64) throws(ClusterError) {
        let text = String(decoding: bytes, as: UTF8.self)
        let parts = text.split(separator: "\n", omittingEmptySubsequences: false)
        let end = parts.firstIndex(of: "") ?? 0
        lines = parts[..<end].map(String.init)
        last = [:]
        for row in parts[end...] where !row.isEmpty {
            let numbers = row.split(separator: " ")
            guard let node = UInt16(numbers[0]), let boot = UInt64(numbers[1]) else { continue }
            last[Life(node: NodeNumber(node), boot: boot)] = UInt64(numbers[2])
        }
        self.index = index
    }

    func effect(of command: [UInt8]) -> LeasePromises.Effect {
        let text = Command(command).text
        guard text.hasPrefix("depose "), let node = UInt16(text.dropFirst(7)) else { return .none }
        return .deposes([NodeNumber(node)])
    }

    var deposedAt: [NodeNumber: UInt64] { [:] }
}

/// State machine safety: no two nodes apply different commands at an index.
final class History: Sendable {
    private struct Core: Sendable {
        var commands: [UInt64: [UInt8]] = [:]
        var leaders: [UInt64: NodeNumber] = [:]
        var violations: [String] = []
    }

    private let core = Guarded(Core())

    var violations: [String] { core.withLock { $0.violations } }
    var elections: Int { core.withLock { $0.leaders.count } }

    func saw(_ command: [UInt8], at index: UInt64) {
        core.withLock { core in
            if let known = core.commands[index], known != command {
                core.violations.append("two commands at \(index)")
            }
            core.commands[index] = command
        }
    }

    /// Election safety: a term has one leader.
    func saw(_ status: RaftStatus, of node: NodeNumber) {
        guard status.role == .leader else { return }
        core.withLock { core in
            if let known = core.leaders[status.term], known != node {
                core.violations.append("two leaders of term \(status.term)")
            }
            core.leaders[status.term] = node
        }
    }
}
