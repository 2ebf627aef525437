internal import DataService
internal import Engine
internal import Orchestration
internal import Server
internal import SimulatedPlatform
internal import Vocabulary

/// Ends an active copy at an instant when its replicas differ from it.
///
/// - One at a time, and only after earlier losses are replicated again, so that all durability
///   levels promise something.
extension Chaos {
    /// How the replicas differ.
    enum Unevenness: CaseIterable {
        /// A replica has a prepare outstanding that the active copy has decided.
        case undecided
        /// Two replicas have different covered seqnos.
        case unequal
    }

    static let intervalNanoseconds: UInt64 = 100_000
    /// Checks of the rows before the map is read again.
    private static let checksOfOneMap = 200

    /// The copies of one vBucket, the active copy first.
    struct Row {
        let fence: UInt64
        let active: SimulatedNode
        /// The nodes with their processes' numbers: copies of an ended process must not be read.
        let owners: [(node: SimulatedNode, restarts: Int)]
        let copies: [VBucket]

        var isThere: Bool {
            owners.allSatisfy { $0.node.host.isRunning && $0.node.restarts == $0.restarts }
        }
    }

    /// Waits for such a replica, then ends the active copy's process and drops its messages in
    /// transit.
    func chaseCopies(_ wanted: Unevenness, until end: UInt64) {
        guard !isOver, cluster.world.now < end else { return }
        let rows = isWhole() ? cluster.newestState.map(rows) ?? [] : []
        guard !rows.isEmpty else {
            return cluster.world.after(20_000_000) { [weak self] in
                self?.chaseCopies(wanted, until: end)
            }
        }
        chaseCopies(wanted, rows, checks: Chaos.checksOfOneMap, until: end)
    }

    private func chaseCopies(
        _ wanted: Unevenness,
        _ rows: [Row],
        checks: Int,
        until end: UInt64
    ) {
        guard !isOver else { return }
        guard checks > 0 else { return chaseCopies(wanted, until: end) }
        let found = rows.first { $0.isThere && isUneven($0, wanted) }
        guard let active = found?.active else {
            return cluster.world.after(Chaos.intervalNanoseconds) { [weak self] in
                self?.chaseCopies(wanted, rows, checks: checks - 1, until: end)
            }
        }
        silence(active, because: "a copy is \(wanted)")
    }

    /// Ends a node's process and drops its messages to other nodes, including delayed ones.
    func silence(_ node: SimulatedNode, because reason: String) {
        beforeEnd()
        let others = cluster.nodes.filter { $0 !== node }.map(\.address)
        last(
            300_000_000,
            others.map { .oneWay(from: node.address, to: $0) },
            end: [.healNetwork]
        )
        for other in others { cluster.world.apply(.cutConnections(node.address, other)) }
        cluster.world.transcript.note("crash \(node.address), \(reason)")
        node.crash(isPower: false)
    }

    func rows(_ state: ClusterState) -> [Row] {
        var rows: [Row] = []
        for bucket in state.buckets where bucket.settings.name != SimulationRun.extraName {
            for (number, placement) in bucket.placements.enumerated()
            where placement.isConfirmed && placement.chain.count > 1 {
                let nodes = placement.chain.nodes.compactMap { owner in
                    let host = state.node(number: owner)?.host
                    return cluster.nodes.first { $0.address == host }
                }
                let copies = nodes.compactMap { node in
                    node.node?.data.bucket(named: bucket.settings.name)?.engine.all[number]
                }
                guard let active = nodes.first, copies.count == placement.chain.count else {
                    continue
                }
                rows.append(
                    Row(
                        fence: placement.fence,
                        active: active,
                        owners: nodes.map { ($0, $0.restarts) },
                        copies: copies
                    )
                )
            }
        }
        return rows
    }

    private func isUneven(_ row: Row, _ wanted: Unevenness) -> Bool {
        guard
            row.copies.allSatisfy({ $0.withCore { $0.follows(row.fence) || $0.feeds(row.fence) } })
        else { return false }
        let others = row.copies.dropFirst()
        switch wanted {
        case .unequal: return Set(others.map { $0.withCore { $0.coveredSeqno } }).count > 1
        case .undecided:
            guard others.contains(where: { $0.withCore { $0.hasPrepares } }) else { return false }
            let known = row.copies[0].prepared
            return others.contains { !known.isSuperset(of: $0.prepared) }
        }
    }
}

extension VBucket {
    fileprivate var prepared: Set<Seqno> { withCore { Set($0.outstandingPrepares.map(\.seqno)) } }
}
