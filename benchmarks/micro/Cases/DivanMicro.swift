internal import Foundation

/// Benchmarks of single parts of the hot paths: to count instructions and allocations, and to
/// compare the layout on disk with rows.
///
///     divan-micro CASE OPERATIONS        under callgrind, see benchmarks/micro/check
///     divan-micro flush DIRECTORY DOCUMENTS PASSES
@main
enum DivanMicro {
    static func main() {
        let words = Array(CommandLine.arguments.dropFirst())
        do {
            if words.count == 4, words[0] == "flush", let documents = Int(words[2]),
                let passes = Int(words[3])
            {
                try FlushComparison(words[1], documents: documents, passes: passes).run()
            } else if words.count == 2, let operations = Int(words[1]), operations > 0 {
                try measure(words[0], operations)
            } else {
                try refuse("divan-micro takes CASE OPERATIONS, with CASE one of \(names)")
            }
        } catch {
            FileHandle.standardError.write(Data("divan-micro: \(error)\n".utf8))
            exit(1)
        }
    }

    private static let requests: [String: RequestCase] = [
        "get-100-d16": RequestCase(valueBytes: 100, batch: 16, kind: .get),
        "get-1k-d1": RequestCase(valueBytes: 1_024, batch: 1, kind: .get),
        "get-1k-d16": RequestCase(valueBytes: 1_024, batch: 16, kind: .get),
        "get-10k-d1": RequestCase(valueBytes: 10 << 10, batch: 1, kind: .getDocument),
        "path-10k-d1": RequestCase(valueBytes: 10 << 10, batch: 1, kind: .getPath),
        "set-100-d16": RequestCase(valueBytes: 100, batch: 16, kind: .set),
        "set-1k-d16": RequestCase(valueBytes: 1_024, batch: 16, kind: .set),
        "set-json-1k-d16": RequestCase(valueBytes: 1_024, batch: 16, kind: .setJSON),
    ]

    private static let storage: [String: @Sendable (Int) throws -> Void] = [
        "commit-1k": { try StorageCases.commit($0) },
        "warmup-1k": { try StorageCases.warmUp($0) },
    ]

    private static let paths: [String: @Sendable (Int) throws -> Void] = [
        "lookup-10k": { PathCases.lookup($0) },
        "ondemand-10k": { try PathCases.walkOnDemand($0) },
    ]

    private static var names: String {
        (Array(requests.keys) + Array(storage.keys) + Array(paths.keys)).sorted().joined(
            separator: ", "
        )
    }

    private static func measure(_ name: String, _ operations: Int) throws {
        if let request = requests[name] {
            try request.run(operations)
        } else if let run = storage[name] {
            try run(operations)
        } else if let run = paths[name] {
            try run(operations)
        } else {
            try refuse("there is no case \(name): \(names)")
        }
    }

    private static func refuse(_ text: String) throws { throw MicroError(description: text) }
}

struct MicroError: Error, CustomStringConvertible {
    let description: String
}

/// The only function whose instructions callgrind counts; `benchmarks/micro/check` has its name.
@inline(never)
func measuredWork(_ body: () throws -> Void) rethrows { try body() }
