internal import Bytes
internal import Orchestration
internal import Seams
internal import Server
internal import SimulatedPlatform
internal import Vocabulary

/// The checks after the last write.
extension ViewWatch {
    /// Queries each view at each node until the answers are complete, and compares them with the final
    /// documents; then checks the index files.
    ///
    /// Only while nothing else is wrong: each answer is awaited for a long time.
    func checkFinalViews() {
        for bucket in scope.buckets {
            for view in scope.views where has(view, bucket) {
                var question = ViewQuestion(bucket: bucket.name, view: view, isFresh: true)
                if judge.violations.isEmpty { checkEverywhere(question) }
                guard view.reduce != nil, judge.violations.isEmpty else { continue }
                question.grouping = view.map == .grouped ? .first : .all
                checkEverywhere(question)
            }
        }
        checkFiles()
    }

    private func checkEverywhere(_ question: ViewQuestion) {
        var left = cluster.nodes.filter(\.isInCluster)
        var flaws: [String: (flaw: String, observation: ViewObservation)] = [:]
        let isAnswered = cluster.waitUntil(seconds: 90) {
            left.removeAll { node in
                guard let observation = complete(question, node) else { return false }
                tally[.check, "finalViews"] += 1
                let flaw = flaw(observation, observation.expectation([:]))
                if let flaw { flaws[node.address] = (flaw, observation) }
                return true
            }
            return left.isEmpty
        }
        for (_, found) in flaws.sorted(by: { $0.key < $1.key }).prefix(2) {
            accuse("at the end, \(found.flaw)", found.observation)
        }
        guard !isAnswered else { return }
        let names = left.map(\.address).joined(separator: ", ")
        judge.accuse("View: \(question) has no complete answer at the end, from \(names)")
    }

    /// The complete answer of a node; nil if there is none within some seconds.
    private func complete(_ question: ViewQuestion, _ node: SimulatedNode) -> ViewObservation? {
        var (found, isOver): (ViewObservation?, Bool) = (nil, false)
        ask(question, node) { observation in
            found = observation
            isOver = true
        }
        _ = cluster.world.run(for: 15 * ViewWatch.second) { isOver }
        guard var observation = found, observation.answer.isComplete,
            observation.base?.documents.count == observation.vBucketCount
        else { return nil }
        // The clocks run again.
        if judge.isBeyondAssumptions { observation.unknown = [] }
        return observation.unknown.isEmpty ? observation : nil
    }

    /// Checks each index file of each node as `--check-index` does.
    private func checkFiles() {
        for node in cluster.nodes {
            guard let disk = node.running?.environment.disk, node.isServing else { continue }
            let root = "/data/indexes"
            for bucket in ((try? disk.list(root)) ?? []).sorted() {
                for file in ((try? disk.list("\(root)/\(bucket)")) ?? []).sorted()
                where file.hasSuffix(".sqlite") {
                    check("\(root)/\(bucket)/\(file)", of: node, disk)
                }
            }
        }
    }

    private func check(_ path: String, of node: SimulatedNode, _ disk: any Disk) {
        let lines = Guarded<[String]>([])
        do throws(NodeError) {
            let isWell = try IndexDump(disk: disk).check(path) { line in
                lines.withLock { $0.append(line) }
            }
            tally[.check, "indexFiles"] += 1
            guard !isWell else { return }
            for line in lines.withLock({ $0 }).prefix(3) {
                judge.accuse("View: \(path) of \(node.address): \(line)")
            }
        } catch {
            judge.accuse("View: \(path) of \(node.address) cannot be checked: \(error)")
        }
    }
}
