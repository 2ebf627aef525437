import SubDocument
import Testing
import Wire

/// Random requests of several paths: their effect is that of their paths one after the other, and
/// nothing if one of them fails.
@Suite struct AtomicityTests {
    private static let names = ["a", "b.c", "b", "list", "list[0]", "list[-1]", "d.e.f"]
    private static let keys = ["_sync", "user", "_sync.rev", "user.list", "other.x"]
    private static let operations: [SubDocumentOperation] = [
        .dictionaryAdd, .dictionaryUpsert, .delete, .replace, .arrayPushLast, .arrayPushFirst,
        .arrayAddUnique, .counter,
    ]
    private static let values = ["1", "\"text\"", "[]", "{\"x\":[1]}", "-7", "null", "not JSON"]

    /// Paths of attributes, then paths of the body.
    private static func specs(_ random: inout RandomDocuments) -> [Spec] {
        func spec(_ names: [String], isAttribute: Bool) -> Spec {
            let operation = random.pick(operations)
            let value = operation == .delete ? "" : random.pick(values)
            var spec = Spec(operation, random.pick(names), value)
            if isAttribute { spec.flags.insert(.attribute) }
            let allowsParents = operation != .delete && operation != .replace
            if allowsParents, random.chance(oneIn: 2) { spec.flags.insert(.makesParents) }
            return spec
        }
        let attributes = (0..<random.below(4)).map { _ in spec(keys, isAttribute: true) }
        let body = (0..<random.below(4) + 1).map { _ in spec(names, isAttribute: false) }
        return attributes + body
    }

    /// The version after the paths one after the other, or the index and status of the first failure.
    private static func fold(_ specs: [Spec], on version: Version) -> Mutated {
        var version = version
        for (index, spec) in specs.enumerated() {
            switch mutate([spec], on: version) {
            case .version(let next, _, _): version = next
            case .failed(_, let status): return .failed(index, status)
            case .refused(let status): return .refused(status)
            }
        }
        return .version(version)
    }

    @Test func requestHasTheEffectOfItsPathsOrNone() {
        var random = RandomDocuments(seed: 19)
        var (stored, failed) = (0, 0)
        for round in 0..<2_000 {
            let version = Version(
                attributes: ["_sync": #"{"rev":1}"#, "user": #"{"list":[1]}"#],
                body: #"{"a":5,"b":{"c":[]},"list":[1,2]}"#
            )
            let specs = Self.specs(&random)
            let expected = Self.fold(specs, on: version)
            switch (mutate(specs, on: version), expected) {
            case (.version(let found, _, _), .version(let wanted, _, _)):
                #expect(found == wanted, "round \(round): \(specs)")
                stored += 1
            case (let found, let wanted):
                #expect(found == wanted, "round \(round): \(specs)")
                failed += 1
            }
        }
        #expect(stored > 10 && failed > 10)
    }
}
