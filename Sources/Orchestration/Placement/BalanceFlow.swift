/// Units (copies or roles of vBuckets) that are assigned to places and can be moved at a cost.
protocol BalancedUnits {
    /// The number of places: the nodes, then possibly one for unassigned units.
    var placeCount: Int { get }
    /// How many units each place should hold.
    var bounds: [ClosedRange<Int>] { get }
    /// The vBuckets with a unit at `place`, once per unit.
    func vBuckets(at place: Int) -> [Int]
    /// The cost of moving a unit of `vBucket` from `from` to `to`; nil if that is not allowed.
    func cost(ofMoving vBucket: Int, from: Int, to: Int) -> Int?
    mutating func move(_ vBucket: Int, from: Int, to: Int)
    /// The places of the units of `vBucket`.
    func places(of vBucket: Int) -> [Int]
}

/// Moves units until every node holds its share, at minimal cost.
///
/// A min-cost flow on the graph of nodes. An edge between two nodes is the vBucket that is cheapest
/// to move between them. The flow is augmented along cheapest paths, and along cycles of negative
/// cost if the initial layout is not the cheapest with its counts.
///
/// - Every step lowers the total cost, so it ends; ties go to the fewest moves, then the lowest
///   numbers.
struct BalanceFlow<Units: BalancedUnits> {
    /// The cost of a unit too few or too many: more than all other costs together.
    private static var imbalanceCost: Int { 100_000_000_000 }
    /// Scales costs so that among paths of equal cost the one with fewer moves wins; no path has
    /// this many moves.
    private static var pathMovesMax: Int { 1_024 }
    private static var unreachable: Int { Int.max / 4 }

    /// A move of one unit.
    private struct Move {
        var vBucket: Int
        var from: Int
        var to: Int
    }

    private(set) var units: Units
    private let count: Int
    private var held: [Int]
    /// By from * count + to: the cost of the cheapest move, and its vBucket.
    private var costs: [Int]
    private var cheapest: [Int]

    init(_ units: Units) {
        self.units = units
        count = units.placeCount
        precondition(count < Self.pathMovesMax, "more nodes than a path may have moves")
        held = (0..<count).map { units.vBuckets(at: $0).count }
        costs = [Int](repeating: Self.unreachable, count: count * count)
        cheapest = [Int](repeating: -1, count: count * count)
        for from in 0..<count { rescan(from) }
    }

    mutating func run() {
        while let path = improvement(), carryOut(path) {}
    }

    /// Makes the moves in order, and undoes all of them unless their total cost is negative: moves
    /// of one path can change each other's costs.
    ///
    /// - Returns: Whether the moves stand.
    private mutating func carryOut(_ path: [Move]) -> Bool {
        var total = 0
        var made: [Move] = []
        for move in path {
            let isThere = units.places(of: move.vBucket).contains(move.from)
            guard isThere,
                let cost = units.cost(ofMoving: move.vBucket, from: move.from, to: move.to)
            else {
                total = Self.unreachable
                break
            }
            total += cost + removing(move.from) + adding(move.to)
            make(move)
            made.append(move)
        }
        if total < 0 { return true }
        for move in made.reversed() {
            make(Move(vBucket: move.vBucket, from: move.to, to: move.from))
        }
        return false
    }

    private mutating func make(_ move: Move) {
        let before = units.places(of: move.vBucket)
        units.move(move.vBucket, from: move.from, to: move.to)
        held[move.from] -= 1
        held[move.to] += 1
        refresh(move.vBucket, at: move.to)
        for place in before where place != move.to { refresh(move.vBucket, at: place) }
    }

    // MARK: The cost of a unit more or less

    private func removing(_ place: Int) -> Int {
        if held[place] > units.bounds[place].upperBound { return -Self.imbalanceCost }
        return held[place] > units.bounds[place].lowerBound ? 0 : Self.imbalanceCost
    }

    private func adding(_ place: Int) -> Int {
        if held[place] < units.bounds[place].lowerBound { return -Self.imbalanceCost }
        return held[place] < units.bounds[place].upperBound ? 0 : Self.imbalanceCost
    }

    // MARK: Paths

    /// The path with the largest gain, or a cycle with a gain; nil if there is none.
    private func improvement() -> [Move]? {
        var distance = (0..<count).map { removing($0) * Self.pathMovesMax }
        var parent = [Int](repeating: -1, count: count)
        var fresh = Array(0..<count)
        while !fresh.isEmpty {
            var isFresh = [Bool](repeating: false, count: count)
            relax(from: fresh, &distance, &parent, &isFresh)
            if let cycle = cycle(in: parent) { return cycle }
            fresh = (0..<count).filter { isFresh[$0] }
        }
        var best = 0
        var end: Int?
        for place in 0..<count where parent[place] >= 0 {
            let gain = distance[place] + adding(place) * Self.pathMovesMax
            if gain < best { (best, end) = (gain, place) }
        }
        guard var place = end else { return nil }
        var path: [Move] = []
        while parent[place] >= 0 {
            path.append(move(from: parent[place], to: place))
            place = parent[place]
        }
        return path.reversed()
    }

    private func relax(
        from fresh: [Int],
        _ distance: inout [Int],
        _ parent: inout [Int],
        _ isFresh: inout [Bool]
    ) {
        for from in fresh {
            let start = distance[from]
            for to in 0..<count {
                let cost = costs[from * count + to]
                guard cost != Self.unreachable else { continue }
                let reached = start + cost * Self.pathMovesMax + 1
                if reached < distance[to] {
                    distance[to] = reached
                    parent[to] = from
                    isFresh[to] = true
                }
            }
        }
    }

    /// A cycle among the parents, which is a cycle of negative cost; nil if there is none.
    private func cycle(in parent: [Int]) -> [Move]? {
        var seenFrom = [Int](repeating: -1, count: count)
        for start in 0..<count where seenFrom[start] < 0 {
            var place = start
            while place >= 0, seenFrom[place] < 0 {
                seenFrom[place] = start
                place = parent[place]
            }
            guard place >= 0, seenFrom[place] == start else { continue }
            var path: [Move] = []
            let end = place
            repeat {
                path.append(move(from: parent[place], to: place))
                place = parent[place]
            } while place != end
            return path.reversed()
        }
        return nil
    }

    private func move(from: Int, to: Int) -> Move {
        Move(vBucket: cheapest[from * count + to], from: from, to: to)
    }

    // MARK: Edges

    private mutating func rescan(_ from: Int) {
        for vBucket in units.vBuckets(at: from) {
            for to in 0..<count { offer(vBucket, from: from, to: to) }
        }
    }

    private mutating func offer(_ vBucket: Int, from: Int, to: Int) {
        guard let cost = units.cost(ofMoving: vBucket, from: from, to: to) else { return }
        let edge = from * count + to
        if cost < costs[edge] || cost == costs[edge] && vBucket < cheapest[edge] {
            costs[edge] = cost
            cheapest[edge] = vBucket
        }
    }

    /// Updates the edges that start at `from`, after units of `vBucket` moved to it or from it.
    private mutating func refresh(_ vBucket: Int, at from: Int) {
        let isThere = units.places(of: vBucket).contains(from)
        for to in 0..<count {
            let edge = from * count + to
            if cheapest[edge] == vBucket {
                costs[edge] = Self.unreachable
                cheapest[edge] = -1
                for other in units.vBuckets(at: from) { offer(other, from: from, to: to) }
            } else if isThere {
                offer(vBucket, from: from, to: to)
            }
        }
    }
}
