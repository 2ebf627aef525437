import Testing
import Wire

/// Hostile functions in a real process: it answers with a message or ends, soon and within its
/// memory, and other functions work as long as it lives.
@Suite struct HostileTests {
    /// What must become of a hostile function.
    enum Fate: Equatable, Sendable {
        /// The document is skipped for this reason.
        case skipped(ScriptProblem.Reason)
        /// An exception, or the end of the process: both happen when memory runs short.
        case shortOfMemory
        /// The process ends itself and names the document, or the batch if it is none.
        case overran
        /// The function does no harm.
        case harmless
    }

    struct Attack: Sendable, CustomTestStringConvertible {
        let name: String
        let statement: String
        let fate: Fate

        var testDescription: String { name }
    }

    static let attacks = [
        Attack(name: "endless loop", statement: "while (true);", fate: .skipped(.timedOut)),
        Attack(
            name: "caught time-out",
            statement: "while (true) try { while (true); } catch (e) {} finally { emit(2, 2); }",
            fate: .skipped(.timedOut)
        ),
        Attack(
            name: "catastrophic regular expression",
            statement: "emit(/^(a+)+$/.test(new Array(40).join('a') + 'b'), 1);",
            fate: .harmless
        ),
        Attack(
            name: "endless string",
            statement: "var s = 'x'; while (true) s += s;",
            fate: .shortOfMemory
        ),
        Attack(
            name: "endless string that catches",
            statement: "var s = 'x'; while (true) try { s += s; s.charCodeAt(9); } catch (e) {}",
            fate: .shortOfMemory
        ),
        Attack(
            name: "endless array",
            statement: "var a = []; while (true) a.push(a.length);",
            fate: .shortOfMemory
        ),
        Attack(
            name: "endless objects",
            statement: "var a = []; while (true) a.push({ n: [1, 2, 3], s: 'x' + a.length });",
            fate: .shortOfMemory
        ),
        Attack(
            name: "long strings",
            statement: "var a = []; while (true) a.push('x'.repeat(1e6) + a.length);",
            fate: .shortOfMemory
        ),
        Attack(
            name: "deep recursion",
            statement: "(function f() { f(); f(); })();",
            fate: .skipped(.threw)
        ),
        Attack(name: "throw", statement: "throw 'no';", fate: .skipped(.threw)),
        Attack(
            name: "endless emit",
            statement: "while (true) emit(1, 1);",
            fate: .skipped(.emittedTooMuch)
        ),
        Attack(
            name: "huge key",
            statement: "emit('x'.repeat(1e6), 1);",
            fate: .skipped(.keyTooLong)
        ),
        Attack(
            name: "tampered JSON",
            statement: "JSON = { stringify: null, parse: null }; emit(1, 1);",
            fate: .harmless
        ),
        Attack(
            name: "tampered prototypes",
            statement: """
                Object.prototype.toString = Array.prototype.push = Function.prototype.call = null;
                emit([1], {});
                """,
            fate: .harmless
        ),
        Attack(
            name: "endless promises",
            statement: "(function f() { Promise.resolve().then(f); })();",
            fate: .overran
        ),
    ]

    @Test(arguments: attacks)
    func hostileFunctionHarmsNeitherMemoryNorOtherFunctions(attack: Attack) throws {
        let memory = 128
        let child = try ScriptChild(memoryMebibytes: memory)
        let source = "function (doc) { if (doc === 0) { \(attack.statement) } else emit(doc, 1); }"
        #expect(try child.define(1, source).isDefined)
        #expect(try child.define(2, "function (doc) { emit(doc, typeof leaked); }").isDefined)
        let answer = try child.map([1, 2], ["0", "1"])
        let isAlive = answer.finished == [1, 2]
        if isAlive {
            #expect(answer.pairs(2) == [#"0="undefined""#, #"1="undefined""#])
            #expect(answer.pairs(1).last == "1=1")
            let next = try child.map([2], ["3"])
            #expect(next.pairs(2) == [#"3="undefined""#])
        } else {
            // The node knows which batch was executing.
            #expect(answer.executing == [1] && answer.finished.isEmpty)
            #expect(child.end() != nil)
        }
        let problem = answer.problems[1]?.first
        switch attack.fate {
        case .skipped(let reason):
            #expect(isAlive && problem?.item == 0 && problem?.reason == reason)
            #expect(problem?.text.isEmpty == false)
        case .shortOfMemory:
            #expect(!isAlive || problem?.item == 0)
        case .overran:
            #expect(answer.overran?.function == 1 && child.end() == 3)
        case .harmless:
            #expect(isAlive && answer.problems.isEmpty)
        }
        let bound = child.residentAtStart + memory * 13 / 10 + 16
        #expect(child.residentMax < bound, "\(child.residentMax) MiB, at most \(bound)")
    }

    /// The limit is relative, because the engine reserves much more than any limit at its start; an
    /// engine that allocates otherwise would escape it.
    @Test(arguments: [
        "var a = []; for (var i = 0; i < N; i++) a.push('x'.repeat(1 << 20) + i); emit(a.length);",
        "var a = []; for (var i = 0; i < N; i++) a.push(new Array(1 << 17).fill(i)); emit(a.length);",
        "var a = []; for (var i = 0; i < N << 14; i++) a.push({ a: i, b: i, c: i }); emit(a.length);",
    ])
    func allocationOfTwiceTheMemoryLimitFails(statement: String) throws {
        for memory in [64, 256] {
            let child = try ScriptChild(memoryMebibytes: memory)
            let source = "function (doc) { var N = \(memory * 2); \(statement) }"
            #expect(try child.define(1, source).isDefined)
            let answer = try child.map([1], ["0"])
            #expect(answer.rows.isEmpty, "\(child.residentMax) MiB were given")
            let bound = child.residentAtStart + memory * 13 / 10 + 16
            #expect(child.residentMax < bound, "\(child.residentMax) MiB, at most \(bound)")
        }
    }
}
