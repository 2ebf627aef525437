import Orchestration
import Testing
import Vocabulary

/// A cluster around one `Reconciler`: nodes with copies that answer its questions, a log that agrees on its
/// proposals, and a trace of its actions as text.
///
/// Node 1 leads. Each step of `run` is 100 ms: nodes that are not silent send beats, the reconciler makes a round, and
/// its actions are performed in their order.
struct LeaderTrace {
    var world: ClusterWorld
    var reconciler = Reconciler()
    var table = FailureTable(of: n(1), now: 0)
    var now: UInt64 = 1_000_000_000
    /// Nodes that send no beats and answer no questions.
    var silent: Set<NodeNumber> = []
    /// Nodes that answer, and whose beats report that a bucket does not serve.
    var unready: Set<NodeNumber> = []
    var copies: [NodeNumber: [VBucketID: CopyReport]] = [:]
    /// Log indexes by which nodes act; by default the last one.
    var actsAsOf: [NodeNumber: UInt64] = [:]
    /// Whether the log agrees on proposals.
    var hasMajority = true
    var voters: [NodeNumber]
    /// The actions since the last `takeLines`.
    var lines: [String] = []
    /// Actions whose results are kept back, for the tests that give them.
    var isHolding = false
    var held: [LeaderAction] = []

    init(nodes: Int, rows: [NodeChain] = [], replicas: Int = 1) {
        world = ClusterWorld(nodes: nodes)
        voters = (1...nodes).map(n)
        if !rows.isEmpty { world.createBucket(replicas: replicas, rows: rows) }
        followMap()
        for node in 2...max(nodes, 2) where node <= nodes { table.heard(n(node), now: now) }
    }

    var others: [NodeNumber] { world.state.nodes.map(\.number).filter { $0 != n(1) } }

    var view: LeaderView {
        var beats = LeaderView.Beats(table)
        beats.unready = unready
        for node in others { beats.actsAsOf[node] = actsAsOf[node] ?? world.state.index }
        var view = LeaderView(of: n(1), world.state, beats, now: now)
        view.leadsSince = 1
        view.wallMilliseconds = now / 1_000_000
        view.log.voters = voters
        view.log.learners = world.state.nodes.map(\.number).filter { !voters.contains($0) }
        view.log.commit = world.state.index
        view.log.last = world.state.index
        for node in world.state.nodes.map(\.number) where !silent.contains(node) {
            view.log.matched[node] = world.state.index
            view.log.heard.insert(node)
            view.log.responsive.insert(node)
        }
        return view
    }

    /// Applies a command of another origin.
    mutating func apply(_ command: ClusterCommand) {
        world.apply(command)
        followMap()
    }

    // MARK: Running

    mutating func run(milliseconds: UInt64) {
        let end = now + milliseconds * 1_000_000
        while now < end {
            now += 100_000_000
            beat()
            perform(reconciler.next(view))
            // Moves want shorter steps than rounds.
            while reconciler.wakeAt < now + 100_000_000, !isHolding {
                now = max(now, reconciler.wakeAt)
                perform(reconciler.advance(view))
                guard now < end else { return }
            }
        }
    }

    private mutating func beat() {
        let suspicions = silent.sorted().map {
            FailureTable.Suspicion(node: $0, silentNanoseconds: table.silence(of: $0, now: now))
        }
        for node in others where !silent.contains(node) {
            table.heard(node, isReady: !unready.contains(node), suspicions: suspicions, now: now)
        }
    }

    mutating func failOver(_ numbers: Int..., request: UInt64 = 1) {
        perform(reconciler.failOver(numbers.map(n), by: "Administrator", request: request, view))
    }

    mutating func perform(_ actions: [LeaderAction]) {
        for action in actions {
            lines.append(line(action))
            if isHolding {
                held.append(action)
            } else {
                answer(action)
            }
        }
    }

    /// Performs an action and gives its result to the reconciler.
    mutating func answer(_ action: LeaderAction) {
        switch action {
        case .propose(let proposal, let call):
            let outcome = hasMajority ? world.apply(proposal.command) : nil
            followMap()
            receive(.outcome(outcome), call)
        case .ask(let question, let call): receive(answer(question.kind), call)
        case .changeVoters(let steps, let call):
            for step in steps {
                switch step {
                case .addVoter(let node): voters.append(node)
                case .remove(let node), .addLearner(let node): voters.removeAll { $0 == node }
                }
            }
            receive(.done, call)
        case .forgetBeats(let node): table.forget(node)
        case .transferLeadership, .log, .answerFailover: break
        }
    }

    mutating func receive(_ result: ActionResult, _ call: UInt64) {
        perform(reconciler.receive(result, of: call, view))
    }

    private mutating func answer(_ kind: CopyQuestion.Kind) -> ActionResult {
        switch kind {
        case .reports(let asked): return .reports(answers(asked) { _ in })
        case .seal(let asked): return .reports(answers(asked) { $0.isSealed = true })
        case .activate(let asked):
            var ready: [NodeNumber: Set<VBucketID>] = [:]
            for (node, subjects) in asked where !silent.contains(node) {
                ready[node] = []
                for subject in subjects {
                    guard let copy = copies[node]?[subject.vBucket],
                        subject.expected.map({ $0 <= copy.position }) ?? true
                    else { continue }
                    copies[node]?[subject.vBucket]?.state = .active
                    ready[node]?.insert(subject.vBucket)
                }
            }
            return .activated(ready)
        case .handOver(let asked):
            var ended: [VBucketID: Seqno] = [:]
            for (node, fenced) in asked where !silent.contains(node) {
                for one in fenced { ended[one.vBucket] = copies[node]?[one.vBucket]?.high }
            }
            return .handedOver(ended)
        }
    }

    private mutating func answers(
        _ asked: [NodeNumber: [FencedVBucket]],
        _ change: (inout CopyReport) -> Void
    ) -> CopyReports {
        var reports: CopyReports = [:]
        for (node, fenced) in asked where !silent.contains(node) {
            let all = fenced.isEmpty ? Array((copies[node] ?? [:]).keys) : fenced.map(\.vBucket)
            reports[node] = [:]
            for vBucket in all {
                guard var report = copies[node]?[vBucket] else { continue }
                change(&report)
                copies[node]?[vBucket] = report
                reports[node]?[vBucket] = report
            }
        }
        return reports
    }

    /// Has each node that answers follow the map: copies exist, under the map's fence, with ten changes.
    private mutating func followMap() {
        guard let bucket = world.state.bucket(named: "b") else {
            copies = [:]
            return
        }
        let targets = bucket.targets?.rows ?? []
        for node in world.state.nodes.map(\.number) where !silent.contains(node) {
            for (vBucket, placement) in bucket.numberedPlacements {
                let number = Int(vBucket.number)
                let isBuilt = targets.indices.contains(number) && targets[number].contains(node)
                let holds = placement.chain.contains(node) || placement.next.contains(node)
                guard holds || isBuilt || placement.former == node else {
                    copies[node]?[vBucket] = nil
                    continue
                }
                var copy = copies[node]?[vBucket] ?? .complete(vBucket)
                let isNew = copy.fence != placement.fence
                copy.fence = placement.fence
                if isNew {
                    copy.isSealed = false
                    let isActive = placement.isConfirmed && placement.chain.first == node
                    copy.state = isActive ? .active : .replica
                }
                copies[node, default: [:]][vBucket] = copy
            }
        }
    }

    // MARK: The trace

    mutating func takeLines() -> [String] {
        defer { lines = [] }
        return lines
    }

    private func line(_ action: LeaderAction) -> String {
        switch action {
        case .propose(let proposal, _): return "propose \(text(proposal.command))"
        case .ask(let question, _):
            switch question.kind {
            case .reports(let asked): return "reports \(text(asked))"
            case .seal(let asked): return "seal \(text(asked))"
            case .activate(let asked): return "activate \(text(asked))"
            case .handOver(let asked): return "handOver \(text(asked))"
            }
        case .changeVoters(let steps, _):
            let names = steps.map { step in
                switch step {
                case .addVoter(let node): "+\(node.value)"
                case .addLearner(let node): "~\(node.value)"
                case .remove(let node): "-\(node.value)"
                }
            }
            return "voters \(names.joined(separator: " "))"
        case .transferLeadership(let node): return "lead \(node.value)"
        case .forgetBeats(let node): return "forget \(node.value)"
        case .log(let level, _, let text): return "\(level): \(text)"
        case .answerFailover(let request, .done): return "answer \(request): done"
        case .answerFailover(let request, .refused(let reason)):
            return "answer \(request): \(reason)"
        }
    }

    private func text<Subject>(_ asked: [NodeNumber: [Subject]]) -> String {
        asked.sorted { $0.key < $1.key }
            .map { node, subjects in
                subjects.isEmpty ? "\(node.value)" : "\(node.value):\(subjects.count)"
            }
            .joined(separator: " ")
    }

    private func text(_ command: ClusterCommand) -> String {
        switch command {
        case .promote(let steps): "promote \(text(steps))"
        case .confirm(let steps): "confirm \(text(steps))"
        case .resume(let steps): "resume \(text(steps))"
        case .release(let steps): "release \(text(steps))"
        case .joint(let steps): "joint \(text(steps))"
        case .takeOver(let steps): "takeOver \(text(steps))"
        case .final(let steps): "final \(text(steps))"
        case .recreate(let steps): "recreate \(text(steps))"
        case .failOver(let step):
            "failOver \(step.nodes.map { "\($0.value)" }.joined(separator: " "))"
        case .setTargets: "targets"
        case .markRebalance: "mark"
        case .endRebalance(let outcome): "end \(outcome.ending)"
        case .removeNode(let node): "remove \(node.value)"
        case .setNodeState(let change): "state \(change.number.value) \(change.membership)"
        case .deleteBucket(let step): "delete \(step.name)"
        case .flushBucket(let step): "flush \(step.name)"
        default: "\(command)"
        }
    }

    private func text(_ steps: VBucketSteps) -> String {
        steps.steps.map { step in
            let row = step.row.map { "\($0.value)" }.joined(separator: ",")
            return row.isEmpty ? "\(step.vBucket.number)" : "\(step.vBucket.number)>\(row)"
        }.joined(separator: " ")
    }
}

extension CopyReport {
    /// A copy of ten changes, all on disk.
    static func complete(_ vBucket: VBucketID) -> CopyReport {
        CopyReport(
            vBucket: vBucket,
            state: .replica,
            fence: 0,
            position: CopyPosition(branchFence: 1, covered: Seqno(10)),
            high: Seqno(10),
            persisted: Seqno(10),
            isIntact: true,
            wasCleanStop: false,
            boot: 1
        )
    }
}
