package import Bytes

/// Compares the replies to one batch with its request, on the node.
///
/// A script process runs foreign code and is not trusted: a reply counts only if the request allows
/// it. The first violation is final; the node then ends the process.
///
/// - Functions answer one after the other, in the order of the request.
/// - The rows of an item are next to each other in one frame, and items ascend.
/// - An item has rows or a problem, not both; a group has exactly one reduction or problem.
package struct ScriptBatchCheck: Sendable {
    package enum Violation: String, Sendable {
        case unexpectedReply = "a reply that the state of the batch does not allow"
        case wrongFunction = "a reply for a function that is not the executing one"
        case itemOutOfRange = "an item that the batch does not have"
        case itemAnsweredTwice = "a second result for an item, or items out of order"
        case itemMissing = "no result for a group of rows"
        case keyTooLong = "a key above the limit"
        case emittedTooMuch = "more rows or bytes for one document than the limit"
        case reductionTooLong = "a reduction above the limit"
        case notJSON = "a text that is not JSON"
    }

    private let purpose: ScriptBatch.Purpose
    private let functions: [UInt32]
    private let count: Int
    private var place = 0
    /// Whether `functions[place]` is executing, so that a death is caused by this batch.
    package private(set) var isExecuting = false
    private var hasAnswer: [Bool] = []
    private var answers = 0
    private var lastItem = -1

    /// `count` is the number of items of the request.
    package init(_ purpose: ScriptBatch.Purpose, functions: [UInt32], count: Int) {
        self.purpose = purpose
        self.functions = functions
        self.count = count
    }

    /// Whether all functions have answered.
    package var isFinished: Bool { place == functions.count }

    /// Checks the next reply to this batch; returns how it violates the request, or nil.
    ///
    /// `isJSON` decides whether a text is one JSON value.
    package mutating func accept(
        _ reply: ScriptReply,
        isJSON: (ByteView) -> Bool
    ) -> Violation? {
        switch reply {
        case .executing(let function):
            guard !isFinished, !isExecuting else { return .unexpectedReply }
            guard function == functions[place] else { return .wrongFunction }
            isExecuting = true
            hasAnswer = [Bool](repeating: false, count: count)
            answers = 0
            lastItem = -1
            return nil
        case .rows(let function, let rows):
            guard purpose == .map else { return .unexpectedReply }
            return violation(function) ?? accept(rows, isJSON)
        case .reductions(let function, let reductions):
            guard purpose != .map else { return .unexpectedReply }
            return violation(function) ?? accept(reductions, isJSON)
        case .problems(let function, var problems):
            if let violation = violation(function) { return violation }
            while let problem = problems.next() {
                if let violation = answer(problem.item) { return violation }
            }
            return nil
        case .finished(let function):
            if let violation = violation(function) { return violation }
            guard purpose == .map || answers == count else { return .itemMissing }
            isExecuting = false
            place += 1
            return nil
        case .log(let function, _, _): return violation(function)
        case .overran(let function, let item):
            return violation(function) ?? (Int(item ?? 0) < count ? nil : .itemOutOfRange)
        case .ready, .defined, .refused, .retiring: return .unexpectedReply
        }
    }

    private func violation(_ function: UInt32) -> Violation? {
        guard isExecuting else { return .unexpectedReply }
        return function == functions[place] ? nil : .wrongFunction
    }

    /// Records that an item has a result.
    private mutating func answer(_ item: UInt32) -> Violation? {
        guard Int(item) < count else { return .itemOutOfRange }
        guard !hasAnswer[Int(item)] else { return .itemAnsweredTwice }
        hasAnswer[Int(item)] = true
        answers += 1
        return nil
    }

    private mutating func accept(
        _ rows: ScriptSection<ScriptRow>,
        _ isJSON: (ByteView) -> Bool
    ) -> Violation? {
        var rows = rows
        var current: UInt32?
        var (rowCount, byteCount) = (0, 0)
        while let row = rows.next() {
            if row.item != current {
                if let violation = answer(row.item) { return violation }
                guard Int(row.item) > lastItem else { return .itemAnsweredTwice }
                lastItem = Int(row.item)
                current = row.item
                (rowCount, byteCount) = (0, 0)
            }
            rowCount += 1
            byteCount += row.key.count + row.value.count
            guard row.key.count <= ScriptLimits.keyBytesMax else { return .keyTooLong }
            guard rowCount <= ScriptLimits.rowsMax, byteCount <= ScriptLimits.emittedBytesMax
            else { return .emittedTooMuch }
            guard isJSON(row.key), isJSON(row.value) else { return .notJSON }
        }
        return nil
    }

    private mutating func accept(
        _ reductions: ScriptSection<ScriptReduction>,
        _ isJSON: (ByteView) -> Bool
    ) -> Violation? {
        var reductions = reductions
        while let reduction = reductions.next() {
            if let violation = answer(reduction.item) { return violation }
            guard reduction.value.count <= ScriptLimits.reductionBytesMax else {
                return .reductionTooLong
            }
            guard isJSON(reduction.value) else { return .notJSON }
        }
        return nil
    }
}
