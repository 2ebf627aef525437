internal import Bytes
internal import ClusterService
internal import DataService
internal import Engine
internal import Orchestration
internal import Replication
internal import Server
internal import SimulatedPlatform
internal import Vocabulary

/// Active copies that end at the instant at which the others are not what they are.
///
/// - One at a time, each once nothing is missing of what was lost before: so that all levels of
///   durable writes promise something.
extension Chaos {
    /// How another copy is not what the active one is.
    enum Unevenness: CaseIterable {
        /// It has what the active one has decided already.
        case undecided
        /// Two of them are not equally far.
        case unequal
    }

    static let interval: UInt64 = 100_000
    /// The map changes less often.
    private static let looksOfOneMap = 200

    /// One vBucket: the active copy first.
    struct Row {
        let fence: UInt64
        let active: SimulatedNode
        /// With the processes that they are of: what ended is not to be looked into.
        let owners: [(node: SimulatedNode, restarts: Int)]
        let copies: [VBucket]

        var isThere: Bool {
            owners.allSatisfy { $0.node.host.isRunning && $0.node.restarts == $0.restarts }
        }
    }

    /// Waits for such a copy and ends the active one's process; nothing of it arrives any more.
    func chaseCopies(_ wanted: Unevenness, until end: UInt64) {
        guard !isOver, cluster.world.now < end else { return }
        let rows = isWhole() ? cluster.newestState.map(rows) ?? [] : []
        guard !rows.isEmpty else {
            return cluster.world.after(20_000_000) { [weak self] in
                self?.chaseCopies(wanted, until: end)
            }
        }
        chaseCopies(wanted, rows, looks: Chaos.looksOfOneMap, until: end)
    }

    private func chaseCopies(
        _ wanted: Unevenness,
        _ rows: [Row],
        looks: Int,
        until end: UInt64
    ) {
        guard !isOver else { return }
        guard looks > 0 else { return chaseCopies(wanted, until: end) }
        let found = rows.first { $0.isThere && isUneven($0, wanted) }
        guard let active = found?.active else {
            return cluster.world.after(Chaos.interval) { [weak self] in
                self?.chaseCopies(wanted, rows, looks: looks - 1, until: end)
            }
        }
        silence(active, because: "a copy is \(wanted)")
    }

    /// Ends its process; nothing of what it sent to other nodes arrives any more, nor what was held
    /// back of it before.
    func silence(_ node: SimulatedNode, because reason: String) {
        beforeEnd()
        let others = cluster.nodes.filter { $0 !== node }.map(\.address)
        last(
            300_000_000,
            others.map { .oneWay(from: node.address, to: $0) },
            [.healNetwork]
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
