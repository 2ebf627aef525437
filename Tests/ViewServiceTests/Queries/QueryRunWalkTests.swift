import Bytes
import Indexing
import Testing
import ViewService
import Vocabulary

/// Random rows on random nodes, with random parameters: the answer is the plain evaluation's.
@Suite(.timeLimit(.minutes(5))) struct QueryRunWalkTests {
    /// A view key with its text and, of an array, the texts of its elements.
    struct Key: Sendable {
        let text: String
        let elements: [String]?
        let sortKey: [UInt8]

        init(_ text: String, _ elements: [String]? = nil) throws {
            self.text = text
            self.elements = elements
            sortKey = try RunRow.sortKey(text)
        }
    }

    struct Row: Sendable {
        let key: Key
        let id: String
        let value: Int
        let vBucket: UInt16
    }

    struct World: Sendable {
        var random: SeededRandom
        var actives: [UInt16] = []
        var rows: [Row] = []
        var keys: [Key] = []
        let batchMax: Int

        init(seed: UInt64) throws {
            random = SeededRandom(seed: seed)
            batchMax = Int.random(in: 1...5, using: &random)
            let vBuckets = Int.random(in: 1...8, using: &random)
            let nodes = UInt16.random(in: 1...4, using: &random)
            actives = (0..<vBuckets).map { _ in .random(in: 1...nodes, using: &random) }
            keys = try ["null", "false", "1", "2.5", "10", "\"a\"", "\"B\"", "\"b\\u0000\""].map {
                try Key($0)
            }
            for elements in [[], ["1"], ["1", "\"x\""], ["1", "\"y\""], ["2", "[1]", "null"]] {
                keys.append(try Key("[" + elements.joined(separator: ",") + "]", elements))
            }
            for document in 0..<Int.random(in: 0...40, using: &random) {
                guard let key = keys.randomElement(using: &random) else { continue }
                let vBucket = Int.random(in: 0..<vBuckets, using: &random)
                let value = Int.random(in: -5...20, using: &random)
                rows.append(
                    Row(key: key, id: "d\(document)", value: value, vBucket: UInt16(vBucket))
                )
            }
            rows.sort {
                $0.key.sortKey == $1.key.sortKey
                    ? $0.id < $1.id : $0.key.sortKey.lexicographicallyPrecedes($1.key.sortKey)
            }
        }

        mutating func chance(_ oneIn: Int) -> Bool {
            Int.random(in: 0..<oneIn, using: &random) == 0
        }

        mutating func query() -> (ViewQuery, BuiltinReduction?) {
            var query = ViewQuery()
            query.isDescending = chance(2)
            if chance(2) { query.skip = .random(in: 0...8, using: &random) }
            if chance(2) { query.limit = .random(in: 0...12, using: &random) }
            let reduction =
                chance(2) ? BuiltinReduction.allCases.randomElement(using: &random) : nil
            let hasKeys = chance(4)
            if hasKeys {
                let count = Int.random(in: 0...5, using: &random)
                query.selection.keys = (0..<count).compactMap { _ in
                    keys.randomElement(using: &random)?.sortKey
                }
            } else {
                if chance(2) {
                    query.selection.startKey = keys.randomElement(using: &random)?.sortKey
                }
                if chance(2) {
                    query.selection.endKey = keys.randomElement(using: &random)?.sortKey
                }
                let id = Array("d\(Int.random(in: 0...40, using: &random))".utf8)
                if chance(3) { query.selection.startDocumentID = id }
                if chance(3) { query.selection.endDocumentID = id }
                query.selection.includesEnd = !chance(3)
            }
            if reduction != nil {
                let level = chance(2) ? nil : Int.random(in: 1...3, using: &random)
                query.reduction =
                    hasKeys ? .groups(level: nil) : chance(3) ? .all : .groups(level: level)
            }
            return (query, reduction)
        }
    }

    // MARK: A node's answer, from the scan

    static func answer(_ request: QueryRequest, _ world: World) throws -> [ScriptedNodes.Step] {
        let numbers = Set(request.vBuckets.map(\.number))
        let own = world.rows.filter { numbers.contains($0.vBucket) }
        let scan = request.scan
        var found: [RunRow] = []
        for (number, range) in scan.ranges.enumerated() {
            let rows = try own.filter { row in
                range.contains(try RunRow(row.key.text, row.id).key)
            }
            var part: [RunRow]
            switch scan.reduction {
            case .none:
                part = try rows.map { row in
                    try RunRow(row.key.text, row.id, value: "\(row.value)", vBucket: row.vBucket)
                }
            case .all:
                let partial = RunRow.partial(rows.map { "\($0.value)" })
                part = rows.isEmpty ? [] : [try RunRow(group: nil, partial: partial)]
            case .groups(let level):
                part = try groups(of: rows, level).map { key, rows in
                    try RunRow(group: key, partial: RunRow.partial(rows.map { "\($0.value)" }))
                }
            }
            if scan.isDescending { part.reverse() }
            for index in part.indices { part[index].keyNumber = number }
            found += part
        }
        found = Array(found.prefix(scan.rowsMax ?? .max))
        var random = world.random
        var steps = [ScriptedNodes.Step.reply(.start(QueryStart(indexRows: UInt64(own.count))))]
        while !found.isEmpty {
            let count = Int.random(in: 0...world.batchMax, using: &random)
            let batch = try RowBatch.of(Array(found.prefix(count)))
            steps.append(.reply(scan.reduction == .none ? .rows(batch) : .groups(batch)))
            found.removeFirst(min(count, found.count))
        }
        return steps + [.reply(.end)]
    }

    // MARK: The plain evaluation

    /// The rows of equal groups, which are next to each other.
    static func groups(of rows: [Row], _ level: Int?) -> [(key: String, rows: [Row])] {
        var groups: [(key: String, rows: [Row])] = []
        for row in rows {
            var text = row.key.text
            if let level, let elements = row.key.elements {
                text = "[" + elements.prefix(level).joined(separator: ",") + "]"
            }
            if groups.last?.key == text {
                groups[groups.count - 1].rows.append(row)
            } else {
                groups.append((text, [row]))
            }
        }
        return groups
    }

    /// Whether a row is between the ends of a selection in the query's direction.
    static func isSelected(_ row: Row, _ selection: ViewQuery.RowSelection, _ isDescending: Bool)
        -> Bool
    {
        /// -1, 0 or 1, in the query's direction.
        func order(_ one: [UInt8], _ other: [UInt8]) -> Int {
            if one == other { return 0 }
            return one.lexicographicallyPrecedes(other) != isDescending ? -1 : 1
        }
        func order(_ key: [UInt8], _ id: [UInt8]?) -> Int {
            let keys = order(row.key.sortKey, key)
            return keys != 0 ? keys : id.map { order(Array(row.id.utf8), $0) } ?? 0
        }
        if let start = selection.startKey, order(start, selection.startDocumentID) < 0 {
            return false
        }
        guard let end = selection.endKey else { return true }
        let place = order(end, selection.endDocumentID)
        return selection.includesEnd ? place <= 0 : place < 0
    }

    static func value(_ rows: [Row], _ reduction: BuiltinReduction) -> String {
        let values = rows.map(\.value)
        let sum = values.reduce(0, +)
        switch reduction {
        case .count: return "\(values.count)"
        case .sum: return "\(sum)"
        case .stats:
            let squares = values.reduce(0) { $0 + $1 * $1 }
            return "{\"sum\":\(sum),\"count\":\(values.count),\"min\":\(values.min() ?? 0),"
                + "\"max\":\(values.max() ?? 0),\"sumsqr\":\(squares)}"
        }
    }

    static func expected(_ world: World, _ query: ViewQuery, _ reduction: BuiltinReduction?)
        -> String
    {
        var selections = [query.selection]
        if let keys = query.selection.keys {
            selections = keys.map { key in
                var selection = query.selection
                selection.startKey = key
                selection.endKey = key
                return selection
            }
        }
        var lines: [String] = []
        for selection in selections {
            let rows = world.rows.filter { isSelected($0, selection, query.isDescending) }
            var part: [String]
            switch query.reduction {
            case .none:
                part = rows.map { row in
                    "{\"id\":\"\(row.id)\",\"key\":\(row.key.text),\"value\":\(row.value)}"
                }
            case .all:
                let value = reduction.map { Self.value(rows, $0) } ?? ""
                part = rows.isEmpty ? [] : ["{\"key\":null,\"value\":\(value)}"]
            case .groups(let level):
                part = groups(of: rows, level).map { key, rows in
                    "{\"key\":\(key),\"value\":\(reduction.map { value(rows, $0) } ?? "")}"
                }
            }
            if query.isDescending { part.reverse() }
            lines += part
        }
        lines = Array(lines.dropFirst(query.skip).prefix(query.limit ?? .max))
        let total = query.reduction == .none ? "\"total_rows\":\(world.rows.count)," : ""
        let separators = lines.indices.map { $0 == 0 ? "\r\n" : ",\r\n" }
        let text = zip(separators, lines).map { $0 + $1 }.joined()
        return "{\(total)\"rows\":[\(text)\r\n]\r\n}\n"
    }

    @Test(arguments: [1, 2, 3, 4] as [UInt64])
    func answersOfRandomQueriesEqualPlainEvaluation(hundred: UInt64) async throws {
        for seed in hundred * 100..<hundred * 100 + 100 {
            var random = try World(seed: seed)
            let (query, reduction) = random.query()
            let world = random
            let stage = RunWorld(world.actives)
            defer { stage.stop() }
            stage.nodes.follow { request, _ in
                (try? Self.answer(request, world)) ?? [.lost("the rows of the test are wrong")]
            }
            let answer = try await stage.answer(query, reduction.map { .builtin($0) } ?? .none)
            #expect(answer.text == Self.expected(world, query, reduction), "seed \(seed): \(query)")
            #expect(!answer.isPartial)
        }
    }
}
