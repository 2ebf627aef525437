import Simulation
import Testing

/// Which definitions of a changed view may answer, and what the checker finds in answers of others.
@Suite struct ViewChangeTests {
    // MARK: The order of requests

    @Test func currentAnswerIsOfTheNewestKnownDefinitionOrALaterOne() {
        var history = DefinitionHistory()
        history.confirm(history.submit(0, at: 10), at: 12)
        history.confirm(history.submit(1, at: 20), at: 22)
        let bounds = history.bounds
        #expect(bounds.current == 1 && bounds.complete == nil)
        #expect(history.versions(since: bounds.current, until: 25) == [1])
        // Any other answer may be of the definition before.
        #expect(history.versions(since: bounds.complete, until: 25) == [1, 0])
        history.confirm(history.submit(2, at: 30), at: 32)
        #expect(history.versions(since: bounds.current, until: 25) == [1])
        #expect(history.versions(since: bounds.current, until: 35) == [2, 1])
    }

    @Test func completeDefinitionEndsThoseBeforeIt() {
        var history = DefinitionHistory()
        history.confirm(history.submit(0, at: 10), at: 12)
        history.confirm(history.submit(1, at: 20), at: 22)
        history.complete(1)
        history.complete(0)
        #expect(history.bounds.complete == 1)
        #expect(history.versions(since: 1, until: 25) == [1])
    }

    @Test func requestWithoutAnAnswerMayTakeEffectAtAnyTime() {
        var history = DefinitionHistory()
        history.confirm(history.submit(0, at: 10), at: 12)
        let lost = history.submit(1, at: 20)
        history.confirm(history.submit(2, at: 30), at: 32)
        // Whether it was carried out before or after the next one is not known.
        history.confirm(lost, at: 33)
        history.complete(lost)
        #expect(history.bounds.current == 2 && history.bounds.complete == nil)
        #expect(history.versions(since: 2, until: 40) == [2, 1])
    }

    @Test func definitionIsUnchangedSinceItsRequestWasKnown() {
        var history = DefinitionHistory()
        #expect(history.unchangedSince(0) == nil)
        let first = history.submit(0, at: 10)
        #expect(history.unchangedSince(first) == nil)
        history.confirm(first, at: 14)
        history.confirm(first, at: 17)
        #expect(history.unchangedSince(first) == 14)
        // The next request may take effect at any time.
        let second = history.submit(1, at: 20)
        #expect(history.unchangedSince(first) == nil)
        #expect(history.unchangedSince(second) == nil)
        history.confirm(second, at: 26)
        #expect(history.unchangedSince(second) == 26)
        // The first one is in the agreed state again, so it took effect late or twice.
        history.confirm(first, at: 30)
        #expect(history.unchangedSince(first) == nil)
        #expect(history.unchangedSince(7) == nil)
    }

    @Test func deletedViewHasNoAnswer() {
        var history = DefinitionHistory()
        history.confirm(history.submit(0, at: 10), at: 12)
        history.confirm(history.submit(nil, at: 20), at: 22)
        #expect(history.versions(since: history.bounds.current, until: 25).isEmpty)
        history.confirm(history.submit(0, at: 30), at: 32)
        #expect(history.versions(since: history.bounds.current, until: 35) == [0])
        // No request has this number.
        history.confirm(7, at: 33)
        #expect(history.bounds.current == 2)
    }

    @Test func textOfADesignDocumentNamesItsRequest() {
        let body = ChangingView.body(version: 2, request: 41)
        #expect(ChangingView.request(of: body) == 41)
        #expect(ChangingView.request(of: Array(#"{"views":{}}"#.utf8)) == nil)
        #expect(body != ChangingView.body(version: 2, request: 42))
    }

    @Test func versionsDifferInTheirRowsAndReductions() {
        let versions = ChangingView.versions
        #expect(Set(versions.map(\.map)).count == versions.count)
        #expect(Set(versions.map(\.reduce)).count == versions.count)
        #expect(versions.allSatisfy { $0.reduce != nil })
        let texts = versions.map { $0.map.rows(id: "a", text: "0.9") }
        #expect(texts[0] == [ViewRow(.list([2, 9]), 9)])
        #expect(texts[1] == [ViewRow(.list([0, 1]), 9), ViewRow(.list([1, 1]), 9)])
        #expect(texts[2] == [ViewRow(.list([0]), 9)])
        // An even value.
        #expect(versions[2].map.rows(id: "a", text: "0.8").isEmpty)
    }

    // MARK: Answers

    private let versions = ChangingView.versions
    private let documents = ViewExpectation(["a": ["0.9"], "b": ["0.1"]])

    private func question(_ grouping: ViewQuestion.Grouping = .none) -> ViewQuestion {
        var question = ViewQuestion(bucket: "b", view: versions[0], isFresh: false)
        question.grouping = grouping
        return question
    }

    /// The rows of one document by one version.
    private func rows(_ version: Int, _ id: String, _ text: String) -> [ViewAnswer.Row] {
        versions[version].map.rows(id: id, text: text).map { ViewAnswer.Row(id: id, $0) }
    }

    private func answer(_ rows: [ViewAnswer.Row]) -> ViewAnswer {
        let sorted = rows.sorted {
            $0.row.key == $1.row.key ? $0.id < $1.id : $0.row.key < $1.row.key
        }
        return ViewAnswer(rows: sorted)
    }

    @Test(arguments: [0, 1, 2])
    func answerOfOneDefinitionIsRight(_ version: Int) {
        let answer = answer(rows(version, "a", "0.9") + rows(version, "b", "0.1"))
        #expect(documents.match(answer, to: question(), of: versions) == .version(version))
        let others = versions.filter { $0 != versions[version] }
        let match = documents.match(answer, to: question(), of: others)
        guard case .none = match else {
            Issue.record("an answer of version \(version) was \(match)")
            return
        }
    }

    @Test(arguments: [(0, 1), (1, 0), (1, 2), (2, 0)])
    func mixtureOfTwoDefinitionsIsAFlaw(_ one: Int, _ other: Int) {
        let mixture = answer(rows(one, "a", "0.9") + rows(other, "b", "0.1"))
        guard case .none = documents.match(mixture, to: question(), of: versions) else {
            Issue.record("a mixture of \(one) and \(other) is right")
            return
        }
    }

    /// The rows of one definition, reduced as another one has it.
    @Test func reductionOfAnotherDefinitionIsAFlaw() {
        let sum = ViewAnswer(rows: [ViewAnswer.Row(id: "", ViewRow(.null, 10))])
        #expect(documents.match(sum, to: question(.all), of: versions) == .version(0))
        // The sum of the rows of `pairs`, which are counted.
        let wrong = ViewAnswer(rows: [ViewAnswer.Row(id: "", ViewRow(.null, 20))])
        guard case .none = documents.match(wrong, to: question(.all), of: versions) else {
            Issue.record("the sum of the rows that are to be counted is right")
            return
        }
    }

    @Test func answerOfADeletedViewIsAFlaw() {
        let match = documents.match(answer([]), to: question(), of: [])
        #expect(match == .none("the view did not exist"))
    }
}
