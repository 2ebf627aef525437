package import Vocabulary

/// Chooses the moves that start next: as many as the nodes' limits allow, those of the most loaded
/// nodes first.
///
/// Two limits protect a node: the copies that it builds and feeds at a time, and the takeovers that
/// it takes part in. Building loads disks and networks, so many small copies count like one large
/// copy, and built copies may wait for their chain in larger numbers.
///
/// - No started move exceeds the limits of a node, whatever runs already.
/// - The same state yields the same moves: ties go to the lowest number.
package struct MoveSchedule: Hashable, Sendable {
    /// A running move and its phase.
    package struct Running: Hashable, Sendable {
        /// The part of a move that a node's limits apply to.
        package enum Phase: Hashable, Sendable {
            case building
            /// All copies are complete.
            case finishing
            case takingOver
        }

        package var move: PlannedMove
        package var phase: Phase

        package init(_ move: PlannedMove, _ phase: Phase) {
            self.move = move
            self.phase = phase
        }
    }

    /// `rebalanceMovesPerNode`.
    package var movesPerNode = Limits.movesPerNodeDefault
    /// One bucket's moves that have not started yet.
    package var waiting: [PlannedMove]
    /// Nodes that cannot be reached; their moves do not start.
    package var absent: Set<NodeNumber> = []

    package init(waiting: [PlannedMove]) {
        self.waiting = waiting
    }

    /// Removes the moves that are to start now from `waiting` and returns them, best first.
    package mutating func start(running: [Running]) -> [PlannedMove] {
        let moves = next(running: running)
        let started = Set(moves.map(\.vBucket))
        waiting.removeAll { started.contains($0.vBucket) }
        return moves
    }

    /// The moves that may start beside the running ones, best first.
    package func next(running: [Running]) -> [PlannedMove] {
        guard !waiting.isEmpty else { return [] }
        var book = MoveBook(running)
        let remaining = loadByNode(running)
        var candidates = waiting.filter { absent.isDisjoint(with: $0.nodes) }
            .map { move in
                let loads = move.nodes.map { remaining[$0] ?? 0 }
                return (move: move, load: loads.max() ?? 0, sum: loads.reduce(0, +))
            }
        candidates.sort {
            ($0.move.kind, $1.load, $1.sum, $0.move.vBucket)
                < ($1.move.kind, $0.load, $0.sum, $1.move.vBucket)
        }
        var chosen: [PlannedMove] = []
        var taken: Set<VBucketID> = []
        // First the moves between idle pairs of nodes, then the rest.
        for isFirstRound in [true, false] {
            for (move, _, _) in candidates where !taken.contains(move.vBucket) {
                if isFirstRound, book.isPairBusy(move) { continue }
                guard fits(move, book) else { continue }
                chosen.append(move)
                taken.insert(move.vBucket)
                book.add(Running(move, move.kind == .roleSwap ? .takingOver : .building))
            }
        }
        return chosen
    }

    /// The moves of `ready` whose takeover may start now, in the same order.
    ///
    /// - Parameters:
    ///   - ready: Moves whose copies are complete.
    ///   - running: All running moves.
    /// - Returns: The moves; empty if the nodes are busy.
    package func takeOvers(of ready: [PlannedMove], running: [Running]) -> [PlannedMove] {
        let vBuckets = Set(ready.map(\.vBucket))
        var book = MoveBook(running.filter { !vBuckets.contains($0.move.vBucket) })
        return ready.filter { move in
            guard hasTakeOverRoom(move, book) else { return false }
            book.add(Running(move, .takingOver))
            return true
        }
    }

    private func fits(_ move: PlannedMove, _ book: MoveBook) -> Bool {
        switch move.kind {
        case .creation: return true
        case .roleSwap: return hasTakeOverRoom(move, book)
        case .active, .replica:
            let builders = move.builders
            if builders.isEmpty { return true }
            guard let source = move.source else { return true }
            // A chain with more new copies than a node may feed is built alone.
            let feeds = book.feeds[source] ?? MoveBook.Work()
            guard feeds.copies == 0 || hasRoom(feeds, builders.count, move.items)
            else { return false }
            let isFull = move.nodes.contains {
                (book.finishing[$0] ?? 0) >= Limits.movesFinishingPerNodeMax
            }
            return !isFull
                && builders.allSatisfy {
                    hasRoom(book.builds[$0] ?? MoveBook.Work(), 1, move.items)
                }
        }
    }

    /// Whether the copies fit within the limit of copies, or within the limit of small copies.
    private func hasRoom(
        _ work: MoveBook.Work,
        _ copies: Int,
        _ items: UInt64
    ) -> Bool {
        let all = work.copies + copies
        if all <= movesPerNode { return true }
        let light = UInt64(movesPerNode) * Limits.lightBuildItems
        return all <= Limits.buildsPerNodeMax && work.items + items * UInt64(copies) <= light
    }

    private func hasTakeOverRoom(_ move: PlannedMove, _ book: MoveBook) -> Bool {
        [move.row.first, move.target.first].allSatisfy { node in
            guard let node else { return true }
            return (book.takeOvers[node] ?? 0) < Limits.takeOversPerNodeMax
        }
    }

    /// By node: the weight of its moves that have not finished.
    private func loadByNode(_ running: [Running]) -> [NodeNumber: UInt64] {
        var remaining: [NodeNumber: UInt64] = [:]
        for move in waiting + running.map(\.move) {
            for node in move.nodes { remaining[node, default: 0] += move.weight }
        }
        return remaining
    }
}

/// The present load of each node.
private struct MoveBook {
    /// Copies being built, and the number of their items.
    struct Work {
        var copies = 0
        var items: UInt64 = 0

        mutating func add(_ copies: Int, of items: UInt64) {
            self.copies += copies
            self.items += items * UInt64(copies)
        }
    }

    var feeds: [NodeNumber: Work] = [:]
    var builds: [NodeNumber: Work] = [:]
    var takeOvers: [NodeNumber: Int] = [:]
    var finishing: [NodeNumber: Int] = [:]
    private var pairs: Set<[NodeNumber]> = []

    init(_ running: [MoveSchedule.Running]) {
        for move in running { add(move) }
    }

    mutating func add(_ running: MoveSchedule.Running) {
        let move = running.move
        switch running.phase {
        case .building:
            let builders = move.builders
            if let source = move.source, !builders.isEmpty {
                feeds[source, default: Work()].add(builders.count, of: move.items)
            }
            for node in builders { builds[node, default: Work()].add(1, of: move.items) }
        case .finishing:
            for node in move.nodes { finishing[node, default: 0] += 1 }
        case .takingOver:
            for node in [move.row.first, move.target.first] {
                if let node { takeOvers[node, default: 0] += 1 }
            }
        }
        for pair in Self.pairs(of: move) { pairs.insert(pair) }
    }

    func isPairBusy(_ move: PlannedMove) -> Bool {
        Self.pairs(of: move).contains { pairs.contains($0) }
    }

    private static func pairs(of move: PlannedMove) -> [[NodeNumber]] {
        guard let source = move.source else { return [] }
        let others = move.builders.isEmpty ? Array(move.target.prefix(1)) : move.builders
        return others.map { [source, $0] }
    }
}
