internal import Bytes
internal import Indexing
internal import JSON
internal import ScriptProcesses
internal import Wire

/// Why calls of a reduce function have no results; the sentence is for the client.
struct ReduceFailure: Error, Equatable {
    let reason: String
}

/// Calls of a reduce function as one frame for a script process.
struct ReduceWork: Sendable {
    let work: ScriptWork
    /// The place of each item's call among all calls.
    let places: [Int]

    /// A frame that is being filled.
    private struct Frame {
        var work: ScriptWorkWriter
        var places: [Int] = []

        func finish() -> ReduceWork { ReduceWork(work: work.finish(), places: places) }
    }

    /// The frames for some calls: those of rows, and those of partial results.
    static func make(
        _ calls: [ReduceCall],
        _ function: ScriptFunction
    ) -> Result<[ReduceWork], ReduceFailure> {
        var works: [ReduceWork] = []
        for purpose in [ScriptBatch.Purpose.reduce, .rereduce] {
            var frame: Frame?
            for (place, call) in calls.enumerated()
            where call.isRereduce == (purpose == .rereduce) {
                let (keys, values) = (ByteWriter(), ByteWriter())
                guard appendKeys(of: call, to: keys) else {
                    return .failure(ReduceFailure(reason: "The key of a row is malformed."))
                }
                appendValues(of: call, to: values)
                let count = keys.count + values.count
                if let full = frame, !full.work.hasRoom(for: count) {
                    works.append(full.finish())
                    frame = nil
                }
                var open = frame ?? Frame(work: ScriptWorkWriter(purpose, function))
                guard open.work.hasRoom(for: count) else {
                    return .failure(
                        ReduceFailure(
                            reason: "The values of \(call.count) rows are together larger than"
                                + " \(ScriptLimits.requestBytesMax >> 20) MiB, which a reduce function"
                                + " cannot be called with. Let the map function emit smaller values."
                        )
                    )
                }
                open.work.append(first: keys.view, second: values.view)
                open.places.append(place)
                frame = open
            }
            if let frame { works.append(frame.finish()) }
        }
        return .success(works)
    }

    /// Appends the JSON array of the rows' keys, or null for partial results.
    private static func appendKeys(of call: ReduceCall, to output: ByteWriter) -> Bool {
        guard !call.isRereduce else {
            output.append("null")
            return true
        }
        output.append("[")
        for index in 0..<call.count {
            if index > 0 { output.append(",") }
            guard Collation.appendJSON(ofSortKey: call.key(index), to: output) != nil else {
                return false
            }
        }
        output.append("]")
        return true
    }

    private static func appendValues(of call: ReduceCall, to output: ByteWriter) {
        output.append("[")
        for index in 0..<call.count {
            if index > 0 { output.append(",") }
            output.append(call.value(index))
        }
        output.append("]")
    }
}

/// Collects the results of several frames, in the order of the calls.
final class ReduceExchange: Sendable {
    private struct State {
        var results: [[UInt8]?]
        var failure: ReduceFailure?
        var works: Int
    }

    private let state: Guarded<State>

    /// An exchange of that many calls in that many frames.
    init(calls: Int, works: Int) {
        state = Guarded(State(results: Array(repeating: nil, count: calls), works: works))
    }

    /// Adds the results of one frame; returns all results, or the first failure, after the last frame.
    func add(
        _ results: ScriptResults,
        of work: ReduceWork
    ) -> Result<[[UInt8]], ReduceFailure>? {
        state.withLock { state in
            results.forEachReduction { item, text in
                state.results[work.places[item]] = text.bytes
            }
            if state.failure == nil,
                let failure = results.failures.min(by: { $0.item < $1.item })
            {
                state.failure = ReduceFailure(failure)
            }
            state.works -= 1
            guard state.works == 0 else { return nil }
            if let failure = state.failure { return .failure(failure) }
            let all = state.results.compactMap { $0 }
            guard all.count == state.results.count else {
                return .failure(
                    ReduceFailure(reason: "A call of the reduce function has no result.")
                )
            }
            return .success(all)
        }
    }
}

extension ReduceFailure {
    init(_ failure: ScriptResults.Failure) {
        let place = failure.line > 0 ? " in line \(failure.line)" : ""
        reason = "The reduce function failed\(place): \(failure.text)"
    }
}
