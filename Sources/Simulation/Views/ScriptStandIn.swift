package import Bytes
internal import JSON
package import SimulatedPlatform
internal import Wire

/// Stands in for `divan-script` in the simulator: it speaks the same protocol, and runs the functions
/// of `ViewFunction` in place of JavaScript.
///
/// - A source that it does not have emits nothing, except `emit(<number>, null)` of `DesignAuthor`.
/// - Faults end or slow it from outside (`Fault.endChild`, `Fault.slowChildren`).
package final class ScriptStandIn: SimulatedProgram {
    /// Processor time of one call.
    private static let callNanoseconds: UInt64 = 8_000

    private enum Function {
        case map(ViewFunction)
        /// A row with this key and no value for each document.
        case constant(Int)
        case largest
        case unknown
    }

    private let console: ProgramConsole
    private let output = ByteWriter()
    private var functions: [UInt32: Function] = [:]

    package init(_ console: ProgramConsole) {
        self.console = console
        ScriptReplyEncoder(batch: 0, output: output).ready(isFiltered: true)
        flush()
    }

    private func flush() {
        console.send(output.view)
        output.removeAll()
    }

    package func received(_ input: ByteView) -> Int {
        var consumed = 0
        while true {
            switch ScriptFrame.next(
                in: input.dropFirst(consumed),
                bytesMax: ScriptLimits.requestBytesMax
            ) {
            case .incomplete: return consumed
            case .invalid:
                console.crash(signal: 6)
                return input.count
            case .frame(let frame):
                consumed += frame.byteCount
                guard let request = ScriptRequest(frame) else {
                    console.crash(signal: 6)
                    return input.count
                }
                answer(request, ScriptReplyEncoder(batch: frame.batch, output: output))
                flush()
            }
        }
    }

    private func answer(_ request: ScriptRequest, _ replies: ScriptReplyEncoder) {
        switch request {
        case .define(let definition):
            functions[definition.function] = ScriptStandIn.function(definition.source.text)
            replies.defined(function: definition.function)
        case .forget(let function): functions[function] = nil
        case .execute(let batch):
            for number in batch.functions { execute(batch, number, to: replies) }
        }
    }

    private static func function(_ source: String) -> Function {
        if let map = ViewFunction.allCases.first(where: { $0.source == source }) {
            return .map(map)
        }
        if source == SimulatedView.Reduce.largest.rawValue { return .largest }
        let (prefix, suffix) = ("function (doc, meta) { emit(", ", null); }")
        guard source.hasPrefix(prefix), source.hasSuffix(suffix) else { return .unknown }
        let number = Int(source.dropFirst(prefix.utf8.count).dropLast(suffix.utf8.count))
        return number.map { .constant($0) } ?? .unknown
    }

    // MARK: Batches

    private func execute(_ batch: ScriptBatch, _ number: UInt32, to replies: ScriptReplyEncoder) {
        replies.executing(function: number)
        // A reply of its own: a fault may end the process between both.
        flush()
        let items = batch.items()
        console.spend(nanoseconds: UInt64(items.count) * ScriptStandIn.callNanoseconds)
        if let function = functions[number] {
            if batch.purpose == .map {
                map(items, by: function, number: number, to: replies)
            } else {
                reduce(items, number, to: replies)
            }
        } else {
            refuse(items, number, to: replies)
        }
        replies.finished(function: number)
    }

    /// Answers that the function is not defined: a process that was started anew has none.
    private func refuse(
        _ items: [ScriptBatch.Item],
        _ number: UInt32,
        to replies: ScriptReplyEncoder
    ) {
        for item in items.indices {
            let problem = ScriptProblem(
                item: UInt32(item),
                reason: .undefined,
                line: 0,
                text: .empty
            )
            replies.problem(function: number, problem)
        }
    }

    private func map(
        _ items: [ScriptBatch.Item],
        by function: Function,
        number: UInt32,
        to replies: ScriptReplyEncoder
    ) {
        let start = replies.beginRows(function: number)
        for (index, item) in items.enumerated() {
            for row in ScriptStandIn.rows(item, by: function) {
                let key = Array(row.key.json.utf8)
                let value = Array((row.value.map { "\($0)" } ?? "null").utf8)
                key.withUnsafeBytes { key in
                    value.withUnsafeBytes { value in
                        replies.appendRow(
                            item: UInt32(index),
                            key: ByteView(key),
                            value: ByteView(value)
                        )
                    }
                }
            }
        }
        replies.end(start)
    }

    private static func rows(_ item: ScriptBatch.Item, by function: Function) -> [ViewRow] {
        switch function {
        case .constant(let key): [ViewRow(.number(key), nil)]
        case .map(let map):
            map.rows(
                id: JSONValue.parse(item.first)?["id"]?.string ?? "",
                text: text(item.second)
            )
        case .largest, .unknown: []
        }
    }

    /// The document's value: JSON, or a string with its base64 form.
    private static func text(_ body: ByteView) -> String? {
        guard body.count >= 2, body[0] == UInt8(ascii: "\"") else { return body.text }
        return Base64.decode(body.slice(1, body.count - 2))
            .map { String(decoding: $0, as: UTF8.self) }
    }

    /// Reduces each group by the one reduce function there is.
    private func reduce(
        _ items: [ScriptBatch.Item],
        _ number: UInt32,
        to replies: ScriptReplyEncoder
    ) {
        let start = replies.beginReductions(function: number)
        for (index, item) in items.enumerated() {
            let values = JSONValue.parse(item.second)?.array?.compactMap(\.int) ?? []
            let text = Array((values.max().map { "\($0)" } ?? "null").utf8)
            text.withUnsafeBytes {
                replies.appendReduction(item: UInt32(index), value: ByteView($0))
            }
        }
        replies.end(start)
    }
}
