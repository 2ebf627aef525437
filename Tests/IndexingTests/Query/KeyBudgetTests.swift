import Indexing
import Testing

/// Which queries may have their keys in memory at a time.
@Suite struct KeyBudgetTests {
    /// In a budget of 8 MiB: clients may use 6 MiB of it.
    private static let mebibyte = 1 << 20

    private enum Step {
        case client(Int)
        case node(Int)
        case endClient(Int)
        case endNode(Int)
    }

    /// What each step's reservation returned, as `+` and `-`; `.` for a release.
    private func run(_ steps: [Step]) -> String {
        var budget = KeyBudget(bytesMax: 8 * Self.mebibyte)
        var outcome = ""
        for step in steps {
            switch step {
            case .client(let count):
                outcome += budget.reserve(count * Self.mebibyte, for: .client) ? "+" : "-"
            case .node(let count):
                outcome += budget.reserve(count * Self.mebibyte, for: .node) ? "+" : "-"
            case .endClient(let count):
                budget.release(count * Self.mebibyte, for: .client)
                outcome += "."
            case .endNode(let count):
                budget.release(count * Self.mebibyte, for: .node)
                outcome += "."
            }
        }
        return outcome
    }

    @Test func queriesFitUntilTheBudgetIsUsed() {
        #expect(run([.client(3), .client(3), .client(1), .endClient(3), .client(1)]) == "++-.+")
        #expect(run([.node(4), .node(4), .node(1), .endNode(4), .node(4)]) == "++-.+")
    }

    @Test func queriesOfClientsLeavePartOfKeyBudgetToOtherNodes() {
        #expect(run([.client(6), .client(1), .node(2), .node(1)]) == "+-+-")
        // They may use more of it while other nodes use little, but not all of it.
        let steps = [Step.node(4), .client(4), .client(1), .endNode(4), .client(2), .client(1)]
        #expect(run(steps) == "++-.+-")
    }

    @Test func onlyQueryFitsIntoBudgetAtAnySize() {
        #expect(run([.client(100), .client(1), .endClient(100), .client(100)]) == "+-.+")
        #expect(run([.node(100), .node(1), .endNode(100), .node(100)]) == "+-.+")
        // Queries of clients do not exclude the first one of another node, nor the reverse.
        #expect(run([.client(100), .node(100), .client(1), .node(1)]) == "++--")
    }

    @Test func queryWithFewKeysIsNeitherCountedNorRefused() {
        var budget = KeyBudget(bytesMax: Self.mebibyte)
        var accepted = [budget.reserve(Self.mebibyte, for: .client)]
        for _ in 0..<100 {
            accepted.append(budget.reserve(KeyBudget.ownBytes, for: .client))
            accepted.append(budget.reserve(KeyBudget.ownBytes, for: .node))
        }
        #expect(accepted.allSatisfy { $0 } && budget.usedBytes == Self.mebibyte)
        budget.release(KeyBudget.ownBytes, for: .client)
        #expect(budget.usedBytes == Self.mebibyte)
        let next = budget.reserve(KeyBudget.ownBytes + 1, for: .client)
        #expect(!next && budget.usedBytes == Self.mebibyte)
    }

    // MARK: Estimates

    private func query(_ count: Int) throws -> ViewQuery {
        let keys = (0..<count).map { "\($0)" }.joined(separator: ",")
        return try ViewQueryTests.parse("", body: "{\"keys\":[\(keys)]}")
    }

    @Test func keysAreCountedWithTheirCopiesAndArrays() throws {
        let query = try query(1_000)
        let bytes = (query.selection.keys ?? []).reduce(0) { $0 + $1.count }
        #expect(bytes == 9_000)
        let alone = query.keyBytes(otherNodes: 0)
        // Three arrays for each key, with their references and headers.
        #expect(alone >= 3 * bytes + 1_000 * 3 * (8 + 32) && alone <= 3 * bytes + 1_000 * 300)
        // A request to another node has the bytes twice.
        #expect(query.keyBytes(otherNodes: 3) - alone == 3 * 2 * bytes)
        let scan = QueryPlan(query).scan
        #expect(scan.keyBytes >= 2 * bytes + 1_000 * 2 * (8 + 32) && scan.keyBytes < alone)
    }

    @Test func boundsOfARangeAreCounted() throws {
        #expect(try ViewQueryTests.parse("").keyBytes(otherNodes: 5) == 0)
        let range = try ViewQueryTests.parse("startkey=1&endkey=2")
        #expect(range.keyBytes(otherNodes: 0) == 3 * (9 + 9))
    }

    /// 262 144 keys with 8 MiB of sort keys: two such queries on a node without others, one in a cluster of
    /// four nodes.
    @Test func largestQueriesFit() {
        var query = ViewQuery()
        query.selection.keys = Array(
            repeating: [UInt8](repeating: 1, count: 32),
            count: 256 << 10
        )
        #expect(2 * query.keyBytes(otherNodes: 0) < KeyBudget.bytesMax / 4 * 3)
        #expect(query.keyBytes(otherNodes: 3) < KeyBudget.bytesMax / 4 * 3)
    }
}
