internal import Bytes
internal import ClusterService
internal import Orchestration
internal import ScriptProcesses
internal import Seams
internal import SimulatedPlatform
internal import ViewService
internal import Vocabulary

/// Puts design documents, queries their views at random nodes, and checks the answers.
///
/// - View: an answer to `stale=false` is that of a plain in-memory evaluation, over one value for each
///   document that was visible between question and answer, without the vBuckets that an error names.
///   Other answers are those of values that were written, and no document's rows are doubled.
/// - View, at the end: the answers of all nodes are those of the final documents, by the newest
///   definition with `stale=ok` too, and the index files pass `--check-index`.
/// - View, of a view that is changed: an answer is that of one of its definitions as a whole
///   (`DefinitionHistory`).
///
/// Runs in a third of the standard seeds, and in each seed of the workload `views`. The random numbers
/// are separate sequences, so other seeds are as without it.
final class ViewWatch: @unchecked Sendable {  // tidy:allow one thread, and a check for it
    static let second: UInt64 = 1_000_000_000
    /// How old the changes are that any index has, if no node ends or is cut off.
    static let lagNanoseconds = 20 * second
    /// How long the nodes may need to learn of a changed view, and to open its index.
    static let reopeningNanoseconds = 5 * second
    private static let snapshotNanoseconds = 3 * second
    /// Queries that wait for an answer; those of nodes that have ended count until their time is over.
    private static let openMax = 24

    let cluster: SimulatedCluster
    let verifier: Verifier
    /// The buckets, the views and the pace of the queries, drawn from the seed.
    struct Scope {
        /// The buckets that have views.
        var buckets: [BucketSettings]
        /// Those of one design document, or of both.
        var views: [SimulatedView]
        /// Nanoseconds between two questions.
        var pace: UInt64
        /// Whether changes of the map cause questions.
        var chasesMoves: Bool

        /// The design documents that never change.
        var documents: Set<String> {
            Set(views.map(\.document)).subtracting([ChangingView.document])
        }
    }

    let scope: Scope
    private let parts: Parts

    private struct Parts {
        /// Nil in half of the seeds.
        let scriptFaults: ScriptFaults?
        let author: ViewAuthor?
    }

    /// The author that changes definitions and compacts indexes; nil in most seeds.
    var author: ViewAuthor? { parts.author }
    private var dice: SeededRandom
    /// When the queries without an answer were asked.
    private var open: [Int: UInt64] = [:]
    private var asked = 0
    private var observations: [ViewObservation] = []
    /// The newest last, by bucket; only if nothing may be lost in this seed.
    private(set) var snapshots: [String: [ViewObservation.Snapshot]] = [:]
    /// The sum of the newest map revisions of the buckets.
    private var revisions: UInt64 = 0
    private(set) var isOver = false
    var tally = Tally()

    /// - Returns: Nil if the seed has no views.
    init?(
        _ cluster: SimulatedCluster,
        _ verifier: Verifier,
        plan: SimulationPlan,
        all: [BucketSettings]
    ) {
        let isOften = plan.workload == "views"
        guard isOften || (plan.workload == "standard" && plan.seed % 3 == 1) else { return nil }
        self.cluster = cluster
        self.verifier = verifier
        dice = SeededRandom(seed: plan.seed ^ 0x7669_6577_73)
        let author = ViewAuthor(
            cluster,
            plan,
            buckets: isOften ? all : [],
            isLossless: verifier.isLossless
        )
        parts = Parts(scriptFaults: ScriptFaults(cluster, seed: plan.seed), author: author)
        let chosen = Int(dice.next() % UInt64(all.count))
        let documents = SimulatedView.documents
        let document = Int(dice.next() % UInt64(documents.count + 1))
        let isWhole = isOften || document == documents.count
        scope = Scope(
            buckets: isOften ? all : [all[chosen]],
            views: SimulatedView.all.filter { isWhole || $0.document == documents[document] }
                + (author == nil ? [] : ChangingView.versions.prefix(1)),
            pace: isOften ? ViewWatch.second / 5 : ViewWatch.second * 3 / 5,
            chasesMoves: isOften
        )
        cluster.world.install(ScriptPool.programName) { console, _ in ScriptStandIn(console) }
        for node in cluster.nodes { node.hasViews = true }
    }

    func start() {
        putDocuments()
        scheduleQuestion()
        if verifier.isLossless { scheduleSnapshot() }
        if scope.chasesMoves { chaseMoves() }
        author?.start { [weak self] in self?.chaseChange(of: $1, $0) }
    }

    func startFaults() { parts.scriptFaults?.start() }

    func endFaults() {
        parts.scriptFaults?.end()
        author?.end()
    }

    /// Asks no further questions.
    func end() {
        isOver = true
        if let faults = parts.scriptFaults { tally.add(faults.tally) }
        if let author { tally.add(author.tally) }
    }

    func pick(_ count: Int) -> Int { Int(dice.next() % UInt64(count)) }

    // MARK: Design documents

    /// Puts the design documents that the newest state lacks, until it has all of them.
    private func putDocuments() {
        let able = cluster.nodes.filter { $0.isInCluster && !$0.host.isFrozen }
        if let node = able.isEmpty ? nil : able[pick(able.count)] {
            for (bucket, document) in missingDocuments {
                let body = SimulatedView.body(of: document)
                cluster.submit(node, "put views \(document) of \(bucket)") { service in
                    let put = try await service.designDocuments.putDesignDocument(
                        document,
                        body: body,
                        inBucket: bucket
                    )
                    return "\(put.revision)"
                }
            }
        }
        cluster.world.after(2 * ViewWatch.second) { [weak self] in
            guard let self, !isOver, !missingDocuments.isEmpty else { return }
            putDocuments()
        }
    }

    private var missingDocuments: [(bucket: String, document: String)] {
        guard let state = cluster.newestState else { return [] }
        return scope.buckets.flatMap { bucket in
            scope.documents.sorted().compactMap { document in
                let record = state.bucket(named: bucket.name)
                guard let record, record.designDocument(named: document) == nil else { return nil }
                return (bucket.name, document)
            }
        }
    }

    /// Whether the newest state has the view.
    func has(_ view: SimulatedView, _ bucket: BucketSettings) -> Bool {
        cluster.newestState?.bucket(named: bucket.name)?.designDocument(named: view.document) != nil
    }

    // MARK: Questions

    private func scheduleQuestion() {
        cluster.world.after(scope.pace / 4 + dice.next() % (2 * scope.pace)) { [weak self] in
            guard let self, !isOver else { return }
            askSomething()
            scheduleQuestion()
        }
    }

    /// Asks whenever a vBucket has moved: rows are then removed at one node and built at another.
    private func chaseMoves() {
        cluster.world.after(ViewWatch.second / 100) { [weak self] in
            guard let self, !isOver else { return }
            let now = scope.buckets.reduce(0) { sum, bucket in
                sum + (cluster.newestState?.bucket(named: bucket.name)?.rev ?? 0)
            }
            if now != revisions {
                revisions = now
                for _ in 0..<2 { askSomething() }
            }
            chaseMoves()
        }
    }

    func askSomething(_ chosen: (view: SimulatedView, bucket: String)? = nil) {
        let able = cluster.nodes.filter { $0.isInCluster && !$0.host.isFrozen }
        let question = drawQuestion(chosen)
        guard !able.isEmpty else { return }
        let node = able[pick(able.count)]
        let oldest = cluster.world.now - min(cluster.world.now, 30 * ViewWatch.second)
        open = open.filter { $0.value > oldest }
        guard open.count < ViewWatch.openMax else { return }
        ask(question, node) { [weak self] observation in
            guard let self, let observation else { return }
            observations.append(observation)
        }
    }

    private func drawQuestion(
        _ chosen: (view: SimulatedView, bucket: String)?
    ) -> ViewQuestion {
        let view = chosen?.view ?? scope.views[pick(scope.views.count)]
        let bucket = chosen?.bucket ?? scope.buckets[pick(scope.buckets.count)].name
        var question = ViewQuestion(bucket: bucket, view: view, isFresh: pick(3) > 0)
        question.isOK = pick(2) == 0
        question.isDescending = pick(3) == 0
        question.timeoutMilliseconds = [2_000, 10_000, 30_000][pick(3)]
        if view.reduce != nil, pick(2) == 0 {
            question.grouping = [.all, .first, .exact][pick(3)]
        } else if pick(3) == 0 {
            question.limit = 1 + pick(12)
        }
        guard pick(3) == 0 else { return question }
        switch view.map {
        case .identity:
            let first = pick(4)
            question.range = .text("client\(first)")...(.text("client\(first + 2 + pick(3))"))
        case .grouped: question.range = .list([1])...(.list([2 + pick(3)]))
        case .several: question.range = .list([pick(2)])...(.list([1 + pick(2)]))
        case .sevens, .pairs, .odd: question.range = .list([pick(2)])...(.list([2 + pick(3)]))
        }
        return question
    }

    /// Asks a node and passes the answered question to `done`; nil if the node refused it.
    ///
    /// `done` is not called if the node's process ends.
    func ask(
        _ question: ViewQuestion,
        _ node: SimulatedNode,
        done: @escaping (ViewObservation?) -> Void
    ) {
        guard let running = node.running, let product = node.node else { return }
        asked += 1
        let number = asked
        open[number] = cluster.world.now
        let observation = observe(question, node)
        let reply = Reply(done)
        running.executor.spawn { [self] in
            let outcome = await ViewClient.answer(question, product)
            // Not inside the turn of the node's lane: the checker reads all copies.
            cluster.world.after(0) { [self] in
                open[number] = nil
                reply.done(checked(observation, outcome))
            }
        }
    }

    private final class Reply: @unchecked Sendable {  // tidy:allow one thread
        let done: (ViewObservation?) -> Void

        init(_ done: @escaping (ViewObservation?) -> Void) {
            self.done = done
        }
    }

    private func checked(
        _ asked: ViewObservation,
        _ outcome: ViewClient.Outcome
    ) -> ViewObservation? {
        guard case .text(let text, let isCurrent) = outcome else {
            tally[.check, "refusedViewQueries"] += 1
            return nil
        }
        guard let answer = ViewAnswer(text) else {
            verifier.reportFlaw("View: \(asked.question) was answered with \(text.prefix(200))")
            return nil
        }
        var observation = asked
        observation.answer = answer
        observation.isOfCurrentState = isCurrent
        observation.answeredAt = cluster.world.now
        observation.unknown = lost(since: asked)
        return observation
    }

    private func scheduleSnapshot() {
        cluster.world.after(ViewWatch.snapshotNanoseconds) { [weak self] in
            guard let self, !isOver else { return }
            for bucket in scope.buckets where missingDocuments.isEmpty {
                snapshots[bucket.name, default: []].append(snapshot(bucket.name))
                if snapshots[bucket.name]?.count ?? 0 > 12 {
                    snapshots[bucket.name]?.removeFirst()
                }
            }
            scheduleSnapshot()
        }
    }

    // MARK: The end

    /// Checks all answers; call it when all operations of clients have ended.
    func conclude() {
        var operations: [String: [String: [RegisterOperation]]] = [:]
        for bucket in scope.buckets {
            operations[bucket.name] = verifier.operations(on: bucket.name)
        }
        for observation in observations {
            let question = observation.question
            tally[.check, "viewAnswers"] += 1
            tally[.check, "viewRows"] += observation.answer.rows.count
            if !observation.answer.isComplete { tally[.check, "partialViewAnswers"] += 1 }
            if question.isFresh, observation.answer.isComplete, observation.unknown.isEmpty {
                tally[.check, "freshViewAnswers"] += 1
            }
            let expectation = observation.expectation(operations[question.bucket] ?? [:])
            reportFlaw(flaw(observation, expectation), observation)
        }
        observations = []
    }

    func reportFlaw(_ flaw: String?, _ observation: ViewObservation) {
        guard let flaw else { return }
        let errors = observation.answer.errors.first.map { "; errors: \($0)" } ?? ""
        let asked = Double(observation.askedAt / 1_000_000) / 1_000
        let answered = Double(observation.answeredAt / 1_000_000) / 1_000
        verifier.reportFlaw(
            "View: \(observation.question) at \(observation.address), asked at \(asked) s and answered "
                + "at \(answered) s: \(flaw)\(errors)"
        )
    }
}
