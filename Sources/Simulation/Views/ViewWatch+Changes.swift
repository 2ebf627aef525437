internal import SimulatedPlatform

/// Queries of a view whose definition changes, and of indexes that are compacted.
extension ViewWatch {
    /// When queries follow a request: while the new index is built, and when it takes over.
    private static let chaseNanoseconds: [UInt64] = [50, 150, 300, 600, 1_200, 2_500].map {
        $0 * 1_000_000
    }

    /// Asks some questions about a design document that is being changed or compacted.
    func chaseChange(of document: String, _ bucket: String) {
        let views = scope.views.filter { $0.document == document }
        guard !views.isEmpty else { return }
        for pause in ViewWatch.chaseNanoseconds {
            cluster.world.after(pause) { [weak self] in
                guard let self, !isOver else { return }
                for _ in 0..<2 { askSomething((views[pick(views.count)], bucket)) }
            }
        }
    }

    /// A sentence on what is wrong with an answer; nil if it is right.
    ///
    /// An answer of a changed view is right if it is that of one definition as a whole.
    func flaw(_ observation: ViewObservation, _ expectation: ViewExpectation) -> String? {
        let (answer, question) = (observation.answer, observation.question)
        guard let bounds = observation.definitions, let author else {
            return expectation.flaw(in: answer, to: question)
        }
        let isCurrent = question.isFresh ? observation.isOfCurrentState : observation.isFinal
        let versions = author.versions(
            question.bucket,
            since: isCurrent ? bounds.current : bounds.complete,
            until: observation.answeredAt
        )
        tally[.check, "changedViewAnswers"] += 1
        let isBounded = observation.base != nil && observation.unknown.isEmpty
        if isBounded, !question.isFresh, !observation.isFinal {
            tally[.check, "boundedChangedAnswers"] += 1
        }
        switch expectation.match(answer, to: question, of: versions) {
        case .version(let place):
            if place > 0 { tally[.check, "earlierViewAnswers"] += 1 }
            return nil
        case .none(let flaw): return flaw
        }
    }
}

extension ViewExpectation {
    /// Which definition an answer is of.
    package enum Match: Hashable, Sendable {
        /// The place of the first one in the list.
        case version(Int)
        /// None of them, with a sentence.
        case none(String)
    }

    /// Finds the first definition by which the whole answer is right.
    package func match(
        _ answer: ViewAnswer,
        to question: ViewQuestion,
        of versions: [SimulatedView]
    ) -> Match {
        var flaws: [String] = []
        for (place, version) in versions.enumerated() {
            var asked = question
            asked.view = version
            guard let flaw = flaw(in: answer, to: asked) else { return .version(place) }
            flaws.append("by \(version.map): \(flaw)")
        }
        guard !flaws.isEmpty else { return .none("the view did not exist") }
        return .none("of no definition as a whole; " + flaws.joined(separator: "; "))
    }
}
