internal import Bytes
internal import Seams
internal import Server
internal import SimulatedPlatform
internal import Vocabulary

/// The checks after the last write.
extension ViewWatch {
    /// Queries each view at each node until the answers are complete, and compares them with the final
    /// documents; then checks the index files.
    ///
    /// After `stale=false`, all indexes are complete. So `stale=ok` answers with the final documents by the
    /// newest definition too, some seconds later at most.
    ///
    /// Only while nothing else is wrong: each answer is awaited for a long time.
    func checkFinalViews() {
        for bucket in scope.buckets {
            for view in scope.views where has(view, bucket) {
                for question in finalQuestions(bucket.name, view)
                where verifier.violations.isEmpty { checkEverywhere(question) }
            }
        }
        checkFiles()
    }

    private func finalQuestions(_ bucket: String, _ view: SimulatedView) -> [ViewQuestion] {
        let fresh = ViewQuestion(bucket: bucket, view: view, isFresh: true)
        var (asItIs, reduced) = (fresh, fresh)
        asItIs.isFresh = false
        asItIs.isOK = true
        reduced.grouping = view.map == .grouped ? .first : .all
        return view.reduce == nil ? [fresh, asItIs] : [fresh, asItIs, reduced]
    }

    private func checkEverywhere(_ question: ViewQuestion) {
        var left = cluster.nodes.filter(\.isInCluster)
        var flaws: [String: (flaw: String, observation: ViewObservation)] = [:]
        let isAnswered = cluster.waitUntil(seconds: 90) {
            left.removeAll { node in
                guard let observation = complete(question, node) else { return false }
                let flaw = flaw(observation, observation.expectation([:]))
                flaws[node.address] = flaw.map { ($0, observation) }
                // The index may be behind, or the old definition may answer: ask again.
                guard question.isFresh || flaw == nil else { return false }
                tally[.check, question.isFresh ? "finalViews" : "finalViewsAsTheyAre"] += 1
                return true
            }
            return left.isEmpty
        }
        for (_, found) in flaws.sorted(by: { $0.key < $1.key }).prefix(2) {
            reportFlaw("at the end, \(found.flaw)", found.observation)
        }
        guard !isAnswered else { return }
        let names = left.map(\.address).joined(separator: ", ")
        verifier.reportFlaw(
            "View: \(question) has no complete answer at the end, or none of the final documents, from "
                + names
        )
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
        if verifier.isBeyondAssumptions { observation.unknown = [] }
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
                verifier.reportFlaw("View: \(path) of \(node.address): \(line)")
            }
        } catch {
            verifier.reportFlaw("View: \(path) of \(node.address) cannot be checked: \(error)")
        }
    }
}
