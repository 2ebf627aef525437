internal import Orchestration
internal import Vocabulary

/// The result of a map function for one document.
package enum MapTrialOutcome: Sendable {
    /// The rows that the function emitted, in the order of its calls of `emit`, as JSON texts, and what
    /// it logged.
    case ended(rows: [(key: [UInt8], value: [UInt8])], log: [String])
    /// The function failed: a sentence with the cause, and the line of the author's text; 0 if it is
    /// not known.
    case failed(line: Int, reason: String, log: [String])
    case documentUnknown
    /// The document cannot be read, or no function can be run now: a sentence with the cause.
    case unavailable(String)
}

/// Runs a map function for one document, without an index, for its author.
package protocol MapTrialRunner: Sendable {
    /// - Parameters:
    ///   - map: The function's source.
    ///   - document: The document's key.
    ///   - bucket: The name of an existing bucket.
    /// - Returns: What the function did, as the index would see it.
    func tryMap(
        _ map: String,
        onDocument document: [UInt8],
        inBucket bucket: String
    ) async -> MapTrialOutcome
}

/// A map function is tried on the admin port before it is saved: our own addition, for the console.
extension AdminRoutes {
    static func trials(_ trials: any MapTrialRunner) -> [Route] {
        [
            Route.ofBucket(.post, "/controller/tryMap", permission: ".views!write") { call in
                guard let bucket = call.bucket?.settings.name else { return .notFound }
                let form = call.request.form
                guard let map = form["map"], let id = form["id"], !id.isEmpty else {
                    return .json(
                        ["_": "The fields map (the function) and id (a document) are required."],
                        status: 400
                    )
                }
                let outcome = await trials.tryMap(
                    map,
                    onDocument: Array(id.utf8),
                    inBucket: bucket
                )
                return reply(outcome, id)
            }
        ]
    }

    private static func reply(_ outcome: MapTrialOutcome, _ id: String) -> Reply {
        switch outcome {
        case .ended(let rows, let log):
            let shown = rows.map { row -> JSONText in
                ["id": .string(id), "key": .rendered(row.key), "value": .rendered(row.value)]
            }
            return .json(["rows": .array(shown), "log": .array(log.map(JSONText.string))])
        case .failed(let line, let reason, let log):
            return .json([
                "rows": [], "log": .array(log.map(JSONText.string)),
                "error": ["line": .number(line), "reason": .string(reason)],
            ])
        case .documentUnknown:
            return .json(["id": .string("There is no document with this id.")], status: 404)
        case .unavailable(let reason): return .json(["_": .string(reason)], status: 503)
        }
    }
}
