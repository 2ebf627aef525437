internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// The form in which a route reports the errors of administration: Couchbase's routes differ in it.
///
/// Tools show the sentences unchanged.
struct ErrorForm: Sendable {
    /// Renders a sentence with a status.
    let sentence: @Sendable (String, Int) -> Reply
    /// The status of what a rule forbids.
    var refused = 400
    /// The status if another operation is running.
    var busy = 503
    var failed = 500
    /// The reply if the object does not exist.
    var unknown = Reply.notFound
    /// The object, as the beginning of a sentence.
    var object = "The bucket"

    /// `{"_":"text"}`; failures are `{"errors":{"_":"text"}}`.
    static let members = ErrorForm { text, status in
        status == 500 ? .failed(text) : .json(["_": .string(text)], status: status)
    }
    static let text = ErrorForm { .text($0, status: $1) }
    /// `["text"]`, which old tools expect.
    static let list = ErrorForm { .list($0, status: $1) }
    /// `"text"`.
    static let string = ErrorForm { .json(.string($0), status: $1) }

    init(sentence: @escaping @Sendable (String, Int) -> Reply) { self.sentence = sentence }

    /// This form with another value of a property.
    func with<Value>(_ property: WritableKeyPath<ErrorForm, Value>, _ value: Value) -> ErrorForm {
        var form = self
        form[keyPath: property] = value
        return form
    }
}

extension Reply {
    /// The reply to a request of administration that was not carried out.
    init(_ error: AdministrationError, _ form: ErrorForm) {
        self =
            switch error {
            case .invalid(let errors, let summaries):
                .refused(errors, and: summaries.map { [("summaries", $0.json)] } ?? [])
            case .refused(let text): form.sentence(text, form.refused)
            case .forbidden(let permission): .forbidden(permission.text)
            case .unknown: form.unknown
            case .differs: .conflict(form.object)
            case .overtaken: .overtaken
            case .unplannable(let flaw): .json([flaw.word: 1], status: 400)
            case .busy(let text): form.sentence(text, form.busy)
            case .late(let text): form.sentence(text, 504)
            case .failed(let text): form.sentence(text, form.failed)
            }
    }
}

extension RebalanceFlaw {
    /// The word that tools match.
    fileprivate var word: String {
        switch self {
        case .noNodes: "empty_known_nodes"
        // `wouldLose` is of graceful failovers only, which another route starts.
        case .mismatch, .wouldLose: "mismatch"
        case .noNodesLeft: "noKVNodesLeft"
        case .deltaImpossible: "deltaRecoveryNotPossible"
        }
    }
}
