import Testing

/// The numbers of STYLE.md, *Shape*, and what a throwing function says of itself.
///
/// The lists of exceptions are exact: what is added fails, and so does what got better and is
/// still in the list. A failure prints the list as it is, in the form in which it stands here.
@Suite struct NumberTests {
    /// Types named `Environment` carry what a service is given, and may have as much as it needs.
    private static let exemptType = "Environment"

    let declarations: [(module: String, path: String, found: Declarations)]

    init() throws {
        let house = try House.shared.get()
        declarations = house.modules.flatMap { module in
            module.files.map { (module.name, $0.path, Declarations(of: $0)) }
        }
    }

    @Test func typesHaveAtMostTwelveStoredProperties() {
        let found = counts(\.storedProperties, above: 12)
        expect(found, toBe: NumberExceptions.storedProperties, "storedProperties")
    }

    @Test func initialisersHaveAtMostFiveArguments() {
        let found = counts(\.arguments, above: 5)
        expect(found, toBe: NumberExceptions.arguments, "arguments")
    }

    @Test func protocolsHaveAtMostSevenRequirements() {
        let found = counts(\.requirements, above: 7)
        expect(found, toBe: NumberExceptions.requirements, "requirements")
    }

    /// From the third argument on, an argument has a label.
    @Test func fewFunctionsHaveThreeUnlabelledArguments() {
        let found = declarations.map { module, _, declared in
            (module, declared.unlabelled.count { $0.count > 2 })
        }
        let modules = Dictionary(found, uniquingKeysWith: +).filter { $1 > 0 }
        let count = modules.values.reduce(0, +)
        #expect(count <= NumberExceptions.unlabelledFunctions, "\(modules)")
    }

    @Test func throwingFunctionsDocumentTheirErrors() {
        var found: [String: Int] = [:]
        for (module, _, declared) in declarations {
            let count = declared.throwing.count { !$0.isDocumented }
            if count > 0 { found[module, default: 0] += count }
        }
        for (module, path, declared) in declarations {
            let isWorse =
                found[module, default: 0] > NumberExceptions.undocumentedThrows[module] ?? 0
            for function in declared.throwing where isWorse && !function.isDocumented {
                Issue.record("\(path):\(function.line): \(function.name) has no “- Throws:”")
            }
        }
        expect(found, toBe: NumberExceptions.undocumentedThrows, "undocumentedThrows")
    }

    /// The counting that the tests above rest on.
    @Test func declarationsAreCountedByTheirType() {
        let text = """
            package struct A<B: C>: D where B: E {
                package static let zero = A(one: 1)
                let one: Int, two: [String: Int]
                var three = 3 {
                    didSet { let local = 1 }
                }
                lazy var four: () -> Int = { 4 }
                var five: Int { let local = 5; return local }
                private(set) package var six: Dictionary<Int, [Int]>
                struct Inner {
                    let seven: Int
                    init(a: Int, b: @escaping (_ x: Int, Int) -> Int = { x, y in x + y }, c: G<H, I>) {
                        self.init(a: a)
                    }
                }
                /// Text.
                ///
                /// - Throws: An error, always.
                @inlinable
                package func eight() throws(F) -> Int { 8 }
                package func nine(_ body: () throws -> Int) async throws -> Int { 9 }
                package func ten<Failure>(_ body: () throws(Failure) -> Int) throws(Failure) {}
                func eleven() throws {}
                func twelve(_ a: Int, _ b: (_ x: Int) -> Int = { $0 }, c: Int, _ d: [Int: Int]) {}
            }
            extension A.Inner {
                init() { let one = A(.init(a: 1)) }
            }
            package protocol J: AnyObject {
                associatedtype K
                var l: Int { get }
                func m() throws
            }
            """
        let found = Declarations(of: SourceFile(path: "A.swift", text: text))
        #expect(found.storedProperties.map(\.name) == ["A.Inner", "A"])
        #expect(found.storedProperties.map(\.count) == [1, 5])
        #expect(found.arguments.map(\.name) == ["A.Inner", "A.Inner"])
        #expect(found.arguments.map(\.count) == [3, 0])
        #expect(found.requirements.map(\.count) == [2])
        #expect(found.unlabelled.map(\.count) == [0, 0, 1, 1, 0, 3, 0, 0])
        #expect(found.throwing.map(\.name) == ["A.eight", "A.nine", "J.m"])
        #expect(found.throwing.map(\.isDocumented) == [true, false, false])
    }

    /// The greatest number of each type that has more than `limit`.
    private func counts(
        _ list: KeyPath<Declarations, [Declarations.Counted]>,
        above limit: Int
    ) -> [String: Int] {
        var found: [String: Int] = [:]
        for (module, _, declared) in declarations {
            for type in declared[keyPath: list] where type.count > limit {
                if type.name.split(separator: ".").last.map(String.init) == Self.exemptType {
                    continue
                }
                let name = "\(module).\(type.name)"
                found[name] = max(found[name] ?? 0, type.count)
            }
        }
        return found
    }

    private func expect(_ found: [String: Int], toBe listed: [String: Int], _ list: String) {
        let names = Set(found.keys).union(listed.keys).sorted()
        let wrong = names.filter { found[$0] != listed[$0] }
        if wrong.isEmpty { return }
        for name in wrong {
            let number = found[name].map { "has \($0)" } ?? "is within the limit or gone"
            let expected = listed[name].map { "the list says \($0)" } ?? "is not in the list"
            Issue.record("\(name) \(number); \(expected)")
        }
        let rows = found.sorted { $0.key < $1.key }.map { "\"\($0.key)\": \($0.value)," }
        Issue.record("NumberExceptions.\(list) as it is:\n\(rows.joined(separator: "\n"))")
    }
}
