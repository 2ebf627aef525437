import Bytes
import Indexing
import JSON
import ScriptProcesses
import Testing
import ViewService
import Vocabulary
import Wire

/// Groups whose partial values come from several nodes; custom reductions by the real script program.
@Suite(.serialized, .timeLimit(.minutes(2))) struct RunReductionTests {
    static func groups(
        _ groups: [(String?, [String])],
        of size: Int = 2
    ) throws -> [ScriptedNodes.Step] {
        let rows = try groups.map { try RunRow(group: $0, partial: RunRow.partial($1)) }
        return ScriptedNodes.rows(rows, of: size, isGrouped: true)
    }

    static func customGroups(_ groups: [(String, String)]) throws -> [ScriptedNodes.Step] {
        let rows = try groups.map { try RunRow(group: $0, partial: Array($1.utf8)) }
        return ScriptedNodes.rows(rows, of: 100, isGrouped: true)
    }

    static var grouped: ViewQuery {
        var query = ViewQuery()
        query.reduction = .groups(level: nil)
        return query
    }

    static var all: ViewQuery {
        var query = ViewQuery()
        query.reduction = .all
        return query
    }

    // MARK: Built-in

    @Test(arguments: [
        (BuiltinReduction.count, "4"), (.sum, "11.5"),
        (.stats, "{\"sum\":11.5,\"count\":4,\"min\":1,\"max\":5.5,\"sumsqr\":44.25}"),
    ])
    func partialValuesOfAllNodesAreOneNumber(reduction: BuiltinReduction, value: String)
        async throws
    {
        let world = RunWorld([1, 2])
        defer { world.stop() }
        let one = try Self.groups([(nil, ["1", "2"])])
        let two = try Self.groups([(nil, ["3", "5.5"])])
        world.nodes.follow { _, node in node == 1 ? one : two }
        let answer = try await world.answer(Self.all, .builtin(reduction))
        #expect(
            answer.text == "{\"rows\":[\r\n{\"key\":null,\"value\":\(value)}\r\n]\r\n}\n"
        )
        #expect(!answer.isPartial)
    }

    @Test func reductionOfNoRowsHasNoRow() async throws {
        let world = RunWorld([1, 2])
        defer { world.stop() }
        let empty = try Self.groups([(nil, [])])
        world.nodes.follow { _, node in
            node == 1 ? ScriptedNodes.rows([], isGrouped: true) : empty
        }
        for reduction in BuiltinReduction.allCases {
            let answer = try await world.answer(Self.all, .builtin(reduction))
            #expect(answer.text == "{\"rows\":[\r\n]\r\n}\n" && !answer.isPartial)
        }
    }

    @Test func valueThatIsNoNumberIsAnErrorOfItsGroupOnly() async throws {
        let world = RunWorld([1, 2])
        defer { world.stop() }
        let one = try Self.groups([("1", ["1"]), ("2", ["\"x\""]), ("3", ["3"])])
        let two = try Self.groups([("1", ["1"]), ("2", ["2"]), ("4", ["true"])])
        world.nodes.follow { _, node in node == 1 ? one : two }
        let answer = try await world.answer(Self.grouped, .builtin(.sum))
        #expect(answer.rows.map { $0["key"]?.int } == [1, 3])
        #expect(answer.rows.map { $0["value"]?.int } == [2, 3])
        let reason = "Builtin _sum function requires map values to be numbers"
        #expect(answer.errors == [["local", reason]] && answer.isPartial)
        var query = Self.grouped
        query.failurePolicy = .stopRows
        let stopped = try await world.answer(query, .builtin(.sum))
        #expect(stopped.rows.count == 1 && stopped.errors == [["local", reason]])
    }

    @Test func malformedPartialValueEndsThePartOfItsNode() async throws {
        let world = RunWorld([1, 2])
        defer { world.stop() }
        let one = try Self.groups([("1", ["1"]), ("3", ["3"])])
        let bad = try [RunRow(group: "2", partial: [0xff]), RunRow(group: "3", partial: [])]
        world.nodes.follow { _, node in
            node == 1 ? one : ScriptedNodes.rows(bad, isGrouped: true)
        }
        let answer = try await world.answer(Self.grouped, .builtin(.sum))
        #expect(answer.rows.map { $0["key"]?.int } == [1, 3])
        #expect(answer.errors.count == 1 && answer.errors[0][0] == QueryRunTests.url)
    }

    // MARK: Custom

    private func function(_ world: RunWorld, _ source: String) -> QueryRun.Reduction {
        .custom(
            world.scripts.function(source, .reduce, ofBucket: "b", timeoutMilliseconds: 5_000)
        )
    }

    @Test func groupsOfSeveralNodesAreReducedAgainInOrder() async throws {
        let world = RunWorld([1, 2])
        defer { world.stop() }
        // More groups than one exchange has; every third one is of a single node.
        let one = try Self.customGroups((0..<700).map { ("\($0)", "[\($0)]") })
        let others = (0..<700).filter { $0 % 3 > 0 }
        let two = try Self.customGroups(others.map { ("\($0)", "[\"b\"]") })
        world.nodes.follow { _, node in node == 1 ? one : two }
        let concatenate = function(
            world,
            "function (keys, values, rereduce) { return [rereduce].concat(values); }"
        )
        let answer = try await world.answer(Self.grouped, concatenate)
        #expect(answer.rows.map { $0["key"]?.int } == Array(0..<700) && !answer.isPartial)
        let b = JSONValue.array([.string("b")])
        for (number, row) in answer.rows.enumerated() {
            let own = JSONValue.array([.integer(number)])
            #expect(row["value"] == (number % 3 == 0 ? own : .array([.bool(true), own, b])))
        }
    }

    @Test func rowsEndBeforeAGroupThatCannotBeReduced() async throws {
        let world = RunWorld([1, 2])
        defer { world.stop() }
        let groups = try Self.customGroups((0..<6).map { ("\($0)", "\($0)") })
        world.nodes.follow { _, _ in groups }
        let source =
            "function (k, values) {\n  if (values[0] === 3) throw 'three'; return values.length; }"
        let answer = try await world.answer(Self.grouped, function(world, source))
        #expect(answer.rows.map { $0["value"]?.int } == [2, 2, 2] && answer.isPartial)
        #expect(answer.errors.count == 1 && answer.errors[0][0] == "local")
        #expect(answer.errors[0][1].hasPrefix("The reduce function failed"))
        #expect(answer.errors[0][1].contains("three"))
    }

    @Test func reductionThatNestsTooDeepIsAnErrorThatStatesTheLimit() async throws {
        let world = RunWorld([1, 2])
        defer { world.stop() }
        let groups = try Self.customGroups((0..<6).map { ("\($0)", "\($0)") })
        world.nodes.follow { _, _ in groups }
        let source = """
            function (k, values) {
              if (values[0] !== 3) return values.length;
              for (var a = 1, i = 0; i < 1100; i++) a = [a];
              return a;
            }
            """
        let answer = try await world.answer(Self.grouped, function(world, source))
        #expect(answer.rows.map { $0["value"]?.int } == [2, 2, 2] && answer.isPartial)
        let reason =
            "The reduce function failed: The reduction nests deeper than 1024 levels. "
            + "Return a value with fewer levels."
        #expect(answer.errors == [["local", reason]])
    }

    @Test func invalidFunctionIsAnError() async throws {
        let world = RunWorld([1, 2])
        defer { world.stop() }
        let groups = try Self.customGroups([("1", "1")])
        world.nodes.follow { _, _ in groups }
        let answer = try await world.answer(Self.grouped, function(world, "function ("))
        #expect(answer.rows.isEmpty && answer.isPartial)
        #expect(answer.errors == [["local", "The reduce function is not valid."]])
    }

    @Test func groupOfOneNodeNeedsNoFunction() async throws {
        let world = RunWorld([1])
        defer { world.stop() }
        let groups = try Self.customGroups([("1", "{\"n\":1}"), ("2", "2")])
        world.nodes.follow { _, _ in groups }
        let answer = try await world.answer(Self.grouped, function(world, "function ("))
        #expect(answer.rows.count == 2 && !answer.isPartial)
    }
}
