import Bytes
import Testing
import Wire

/// A document with its metadata, as a test writes it.
struct Document {
    var cas: UInt64 = 1_780_000_000_123_456_789
    var meta = #"{"id":"a"}"#
    var body: String
}

/// The replies to one request, as values that own their bytes.
struct Answer {
    struct Row: Equatable {
        let item: UInt32
        let key: String
        let value: String
    }

    struct Problem: Equatable {
        let item: UInt32
        let reason: ScriptProblem.Reason
        let line: UInt32
        let text: String
    }

    var isReady = false
    var isDefined = false
    var complaint: (line: UInt32, text: String)?
    /// By function.
    var rows: [UInt32: [Row]] = [:]
    var problems: [UInt32: [Problem]] = [:]
    var reductions: [UInt32: [UInt32: String]] = [:]
    var executing: [UInt32] = []
    var finished: [UInt32] = []
    var log: [String] = []
    var dropped: UInt32 = 0
    /// The function and the item that ended the process.
    var overran: (function: UInt32, item: UInt32?)?
    var isRetiring = false
    /// Bytes of the largest frame.
    var frameBytesMax = 0

    /// Whether the request has its whole answer.
    func isComplete(functions: Int) -> Bool {
        isReady || isDefined || complaint != nil || finished.count == functions && functions > 0
    }

    /// Adds a reply of the process.
    mutating func add(_ frame: ScriptFrame) throws {
        frameBytesMax = max(frameBytesMax, frame.byteCount)
        switch try #require(ScriptReply(frame), "a malformed reply") {
        case .ready: isReady = true
        case .defined: isDefined = true
        case .refused(_, let refusal): complaint = (refusal.line, refusal.text.text)
        case .executing(let function): executing.append(function)
        case .rows(let function, var list):
            while let row = list.next() {
                rows[function, default: []].append(
                    Row(item: row.item, key: row.key.text, value: row.value.text)
                )
            }
        case .problems(let function, var list):
            while let problem = list.next() {
                problems[function, default: []].append(
                    Problem(
                        item: problem.item,
                        reason: problem.reason,
                        line: problem.line,
                        text: problem.text.text
                    )
                )
            }
        case .reductions(let function, var list):
            while let reduction = list.next() {
                reductions[function, default: [:]][reduction.item] = reduction.value.text
            }
        case .finished(let function): finished.append(function)
        case .log(_, let count, let text):
            dropped += count
            log.append(text.text)
        case .overran(let function, let item): overran = (function, item)
        case .retiring: isRetiring = true
        }
    }

    /// Key and value of all rows of a function, as `key=value`.
    func pairs(_ function: UInt32 = 1) -> [String] {
        rows[function, default: []].map { "\($0.key)=\($0.value)" }
    }

    func reasons(_ function: UInt32 = 1) -> [ScriptProblem.Reason] {
        problems[function, default: []].map(\.reason)
    }
}

/// Requests as bytes.
enum Requests {
    static func define(
        _ function: UInt32,
        _ source: String,
        use: ScriptUse = .map,
        timeoutMilliseconds: UInt32 = 1_000,
        library: String = ""
    ) -> ByteWriter {
        written { output in
            Array(source.utf8).withUnsafeBytes { source in
                Array(library.utf8).withUnsafeBytes { library in
                    let definition = ScriptDefinition(
                        function: function,
                        use: use,
                        timeoutMilliseconds: timeoutMilliseconds,
                        source: ByteView(source),
                        library: ByteView(library)
                    )
                    ScriptRequest.appendDefinition(definition, batch: 1, to: output)
                }
            }
        }
    }

    static func map(_ functions: [UInt32], _ documents: [Document]) -> ByteWriter {
        batch(.map, functions, documents.map { ($0.cas, $0.meta, $0.body) })
    }

    static func reduce(
        _ function: UInt32,
        _ groups: [(keys: String, values: String)],
        isRereduce: Bool
    ) -> ByteWriter {
        batch(isRereduce ? .rereduce : .reduce, [function], groups.map { (0, $0.keys, $0.values) })
    }

    private static func batch(
        _ purpose: ScriptBatch.Purpose,
        _ functions: [UInt32],
        _ items: [(UInt64, String, String)]
    ) -> ByteWriter {
        written { output in
            var encoder = ScriptBatchEncoder(purpose, functions: functions, batch: 1, to: output)
            for (stamp, first, second) in items {
                Array(first.utf8).withUnsafeBytes { first in
                    Array(second.utf8).withUnsafeBytes { second in
                        encoder.append(
                            stamp: stamp,
                            first: ByteView(first),
                            second: ByteView(second)
                        )
                    }
                }
            }
            encoder.finish()
        }
    }

    private static func written(_ body: (ByteWriter) -> Void) -> ByteWriter {
        let writer = ByteWriter()
        body(writer)
        return writer
    }
}
