internal import Bytes
internal import CJavaScriptCore
internal import Wire

/// The calls of one function for the items of one batch, and the replies to them.
///
/// A problem with one item leaves the others alone: the harness returns after it, with the results
/// of the items before, and continues behind it.
struct BatchExecution {
    let function: UInt32
    /// Replaced between two items if the harness asks for it.
    private(set) var context: ScriptContext
    let batch: ScriptBatch
    /// The batch's text, converted once for all its functions.
    let text: EngineText
    let cells: HarnessCells
    let watch: ExecutionWatch
    let timeoutMilliseconds: UInt32
    let replies: Replies
    let host: any ScriptWorker.Host

    /// Where replies go.
    struct Replies {
        /// The number of the batch.
        let batch: UInt32
        let encoder: ScriptReplyEncoder
        let output: ByteWriter
        /// For the texts of results, kept to be reused.
        let scratch: ByteWriter
        let flush: () -> Void
    }

    /// Calls the function for every item; `renew` makes a new context of the function.
    mutating func run(renew: () -> ScriptContext?) {
        if !run(text, count: batch.count, base: 0, renew) { runOneByOne(renew) }
        sendResults()
        sendNotes()
    }

    /// At least one item is not JSON: the others are called.
    private mutating func runOneByOne(_ renew: () -> ScriptContext?) {
        requireMemory()
        let pair = ByteWriter()
        for (index, item) in batch.items().enumerated() {
            pair.removeAll()
            pair.append("[")
            pair.append(item.first)
            pair.append(",")
            pair.append(item.second)
            pair.append("]")
            guard !run(EngineText(pair.view), count: 1, base: index, renew) else { continue }
            requireMemory()
            let what = batch.purpose == .map ? "document is" : "keys or values are"
            send(.notJSON, item: UInt32(index), text: "The \(what) not valid JSON.")
        }
    }

    /// Calls the function for the items of a text; false if that is not JSON.
    private mutating func run(
        _ text: EngineText,
        count: Int,
        base: Int,
        _ renew: () -> ScriptContext?
    ) -> Bool {
        guard var items = context.parse(text, count: 2 * count) else { return false }
        var next = 0
        var renewedBefore: Int?
        while next < count {
            cells.clearReason()
            cells.item = UInt32(base + next)
            cells.next = next + 1
            watch.begin(timeoutMilliseconds: timeoutMilliseconds)
            let outcome = context.run(
                items,
                from: next,
                to: count,
                base: base,
                isRereduce: batch.purpose == .rereduce
            )
            next = cells.next
            let hasTimedOut = watch.hasTimedOut
            if hasTimedOut, cells.item == HarnessCells.noItem { overrun() }
            // The results first: what follows may call the harness.
            sendResults()
            if cells.isDirty {
                sendNotes()
                context.release(items)
                requireMemory()
                guard renewedBefore != next, let renewed = renew(),
                    let parsed = renewed.parse(text, count: 2 * count)
                else { host.fail("a function that could be made once cannot be made again") }
                (context, items, renewedBefore) = (renewed, parsed, next)
                continue
            }
            let item = UInt32(base + next - 1)
            switch outcome {
            case .value:
                if let reason = cells.reason { send(reason, item: item) }
            case .exception where hasTimedOut: send(.timedOut, item: item)
            case .exception(let exception):
                requireMemory()
                let (line, text) = context.describe(exception, isDefinition: false)
                send(.threw, item: item, line: line, text: text)
            }
            sendNotes()
        }
        context.release(items)
        return true
    }

    // MARK: Problems

    /// Sends a problem that the harness noted; its line is that of the call that caused it.
    private func send(_ reason: ScriptProblem.Reason, item: UInt32) {
        switch reason {
        case .threw:
            requireMemory()
            let (line, text) = context.describeLast()
            send(.threw, item: item, line: line, text: text)
        case .timedOut, .notJSON, .undefined:
            send(reason, item: item, text: explain(reason))
        case .keyTooLong, .emittedTooMuch, .reductionTooLong:
            send(reason, item: item, line: context.describeLast().line, text: explain(reason))
        }
    }

    private func explain(_ reason: ScriptProblem.Reason) -> String {
        switch reason {
        case .timedOut:
            "The function ran for more than \(timeoutMilliseconds) ms and was stopped."
        case .keyTooLong:
            "A key is longer than \(ScriptLimits.keyBytesMax) bytes. Emit a shorter key."
        case .emittedTooMuch:
            "The function emitted more than \(ScriptLimits.rowsMax) rows or "
                + "\(ScriptLimits.emittedBytesMax) bytes for this document. Emit less."
        case .reductionTooLong:
            "The reduction is longer than \(ScriptLimits.reductionBytesMax) bytes. A reduce "
                + "function must return much less than its values."
        // A result; of an item that is not JSON there is none.
        case .notJSON where batch.purpose == .map:
            "A key or a value nests deeper than \(ScriptLimits.depthMax) levels. Emit a part of it."
        case .notJSON:
            "The reduction nests deeper than \(ScriptLimits.depthMax) levels. Return a value with "
                + "fewer levels."
        case .threw, .undefined: ""
        }
    }

    private func send(
        _ reason: ScriptProblem.Reason,
        item: UInt32,
        line: UInt32 = 0,
        text: String
    ) {
        var text = text
        text.withUTF8 { bytes in
            replies.encoder.problem(
                function: function,
                ScriptProblem(
                    item: item,
                    reason: reason,
                    line: line,
                    text: ByteView(UnsafeRawBufferPointer(bytes))
                )
            )
        }
        flushIfLarge()
    }

    private func sendNotes() {
        while cells.notes > 0 {
            let line = ByteWriter()
            guard context.append(.note, to: line) else { return }
            replies.encoder.log(function: function, dropped: cells.drainDropped(), text: line.view)
        }
    }

    private func overrun() -> Never {
        host.overrun(batch: replies.batch, function: function)
    }

    /// Ends the process if the memory is used up, of which an exception or a failed conversion may be the
    /// consequence.
    private func requireMemory() {
        if !host.hasMemory { host.fail("the functions have used up the memory") }
    }

    // MARK: Results

    /// Sends what the items produced since the last call.
    private func sendResults() {
        let (encoder, output, scratch) = (replies.encoder, replies.output, replies.scratch)
        scratch.removeAll(keepingAtMost: ScriptLimits.pieceBytes)
        // The conversion has a time of its own: the last item may have used most of its time.
        watch.begin(timeoutMilliseconds: timeoutMilliseconds)
        guard context.append(.results, to: scratch) else {
            if watch.hasTimedOut { overrun() }
            host.fail("the engine does not return the results")
        }
        let isMap = batch.purpose == .map
        var text = ResultText(scratch.view)
        var frame = beginResults()
        /// Items above a limit of bytes or levels, which the harness does not count.
        var refused: [(item: UInt32, reason: ScriptProblem.Reason)] = []
        var current: UInt32?
        var (start, bytes) = (0, 0)
        while !text.isAtEnd {
            let item = text.item()
            // A reduction has no key.
            let key = isMap ? text.field(before: UInt8(ascii: "\t")) : .empty
            let value = text.field(before: UInt8(ascii: "\n"))
            if item != current {
                current = item
                if output.count - frame > ScriptLimits.pieceBytes {
                    encoder.end(frame)
                    replies.flush()
                    frame = beginResults()
                }
                (start, bytes) = (output.count, 0)
            }
            guard refused.last?.item != item else { continue }
            bytes += key.count + value.count
            if let reason = refusal(key, value, bytes: bytes) {
                refused.append((item, reason))
                output.truncate(to: start)
            } else if isMap {
                encoder.appendRow(item: item, key: key, value: value)
            } else {
                encoder.appendReduction(item: item, value: value)
            }
        }
        encoder.end(frame)
        for (item, reason) in refused { send(reason, item: item, text: explain(reason)) }
        flushIfLarge()
    }

    private func beginResults() -> Int {
        batch.purpose == .map
            ? replies.encoder.beginRows(function: function)
            : replies.encoder.beginReductions(function: function)
    }

    /// Why a row or a reduction is above a limit; nil if it is not.
    ///
    /// `bytes` are those of its item, with this row.
    private func refusal(
        _ key: ByteView,
        _ value: ByteView,
        bytes: Int
    ) -> ScriptProblem.Reason? {
        if batch.purpose != .map, bytes > ScriptLimits.reductionBytesMax {
            return .reductionTooLong
        }
        if key.count > ScriptLimits.keyBytesMax { return .keyTooLong }
        if bytes > ScriptLimits.emittedBytesMax { return .emittedTooMuch }
        return Nesting.isTooDeep(key) || Nesting.isTooDeep(value) ? .notJSON : nil
    }

    private func flushIfLarge() {
        if replies.output.count > ScriptLimits.pieceBytes { replies.flush() }
    }
}

/// Measures how deep JSON text nests.
///
/// The node ends a process that sends deeper text than `ScriptLimits.depthMax`. An honest function
/// may produce such text: a document of the greatest depth inside an object is one level deeper.
enum Nesting {
    /// The bytes of the shortest text above the limit: its brackets.
    private static let bytesMin = 2 * (ScriptLimits.depthMax + 1)

    /// Whether valid JSON text has more than `ScriptLimits.depthMax` open brackets somewhere.
    static func isTooDeep(_ text: ByteView) -> Bool {
        guard text.count >= bytesMin else { return false }
        var (offset, depth) = (0, 0)
        var isInString = false
        while offset < text.count {
            switch text[offset] {
            case UInt8(ascii: "\""): isInString.toggle()
            // The escaped character may be a quotation mark.
            case UInt8(ascii: "\\"): offset += 1
            case _ where isInString: break
            case UInt8(ascii: "["), UInt8(ascii: "{"):
                depth += 1
                if depth > ScriptLimits.depthMax { return true }
            case UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
            default: break
            }
            offset += 1
        }
        return false
    }
}

/// Reads the lines in which the harness returns results.
///
/// The fields of a line end with a tab, the last one with a line feed; JSON text has neither.
struct ResultText {
    private let view: ByteView
    private var position = 0

    init(_ view: ByteView) { self.view = view }

    var isAtEnd: Bool { position >= view.count }

    /// Consumes a decimal number and the tab after it.
    mutating func item() -> UInt32 {
        var number: UInt32 = 0
        while position < view.count, view[position] != UInt8(ascii: "\t") {
            number = number &* 10 &+ UInt32(view[position] & 15)
            position += 1
        }
        position += 1
        return number
    }

    /// Consumes a field and the byte that ends it.
    mutating func field(before end: UInt8) -> ByteView {
        let start = min(position, view.count)
        while position < view.count, view[position] != end { position += 1 }
        defer { position += 1 }
        return view.slice(start, position - start)
    }
}
