import Bytes
import JSON
import SubDocument
import Testing

/// Random documents and sequences of edits, against a tree.
@Suite struct PropertyTests {
    /// The model's answer for a random edit, and the edit's.
    private struct Comparison {
        let edit: Edit
        let expected: PathModel.Answer
        let outcome: Outcome
    }

    private func value(of text: String) throws -> JSONValue {
        try #require(JSONValue.parse(text), "\(text)")
    }

    @Test(arguments: 0..<40) func lookupsFindWhatTheTreeHas(seed: Int) throws {
        var random = RandomDocuments(seed: UInt64(seed))
        for _ in 0..<50 {
            let document = random.document()
            let tree = try value(of: document)
            let steps = random.steps(in: tree)
            let path = random.path(steps)
            let label = "seed \(seed): \(path) in \(document)"
            switch (get(path, document), PathModel.get(steps, in: tree)) {
            case (.failure(let found), _) where steps.isEmpty: #expect(found == .invalidArguments)
            case (.text(let text), .success(let expected)):
                #expect(JSONValue.parse(text) == expected, "\(label)")
                #expect(text == text.trimmed && document.contains(text), "\(label)")
            case (.failure(let found), .failure(let expected)):
                #expect(found == expected, "\(label)")
            case (let found, let expected):
                Issue.record("\(label): \(found), expected \(expected)")
            }
            switch PathModel.count(steps, in: tree) {
            case .success(let number): #expect(count(path, document) == .text(String(number)))
            case .failure(let failure): #expect(count(path, document) == .failure(failure))
            }
        }
    }

    @Test(arguments: 0..<60) func editsChangeWhatTheTreeChanges(seed: Int) throws {
        var random = RandomDocuments(seed: 1_000 + UInt64(seed))
        var document = random.document()
        var tree = try value(of: document)
        for number in 0..<60 {
            let comparison = try randomEdit(of: document, tree, &random)
            let label = "seed \(seed), edit \(number): \(comparison.edit) of \(document)"
            switch (comparison.outcome, comparison.expected) {
            case (.text(let text), .success(let expected)):
                #expect(JSONValue.parse(text) == expected, "\(label): \(text)")
                (document, tree) = (text, expected)
            case (.failure(let found), .failure(let expected)):
                #expect(found == expected, "\(label)")
            case (let found, let expected):
                Issue.record("\(label): \(found), expected \(expected)")
            }
        }
    }

    private func randomEdit(
        of document: String,
        _ tree: JSONValue,
        _ random: inout RandomDocuments
    ) throws -> Comparison {
        let operation = random.pick(EditOperation.allCases)
        let steps = random.steps(in: tree)
        let isList = [.pushLast, .pushFirst, .insert].contains(operation)
        let texts = (0..<(isList || random.chance(oneIn: 10) ? 1 + random.below(3) : 1)).map { _ in
            random.value(depth: 2)
        }
        let text =
            operation == .counter
            ? random.pick(["1", "-1", "0", "9223372036854775807", "-9223372036854775808", "1.5"])
            : random.separated(texts)
        let edit = Edit(
            operation,
            random.path(steps),
            text,
            makesParents: random.chance(oneIn: 2)
        )
        let expected = PathModel.apply(edit, steps, try texts.map { try value(of: $0) }, to: tree)
        return Comparison(edit: edit, expected: expected, outcome: edit.apply(to: document))
    }

    /// What an edit does not change, it copies byte by byte.
    @Test(arguments: 0..<20) func replacedValueLeavesAllOtherBytes(seed: Int) throws {
        var random = RandomDocuments(seed: 2_000 + UInt64(seed))
        for _ in 0..<50 {
            let document = random.document()
            let path = random.path(random.steps(in: try value(of: document)))
            guard case .text(let old) = get(path, document) else { continue }
            _ = Edit(.replace, path, #""new""#).apply(to: Array(document.utf8)) { result, bytes in
                guard let written = result.written else {
                    Issue.record("seed \(seed): nothing was written")
                    return
                }
                let restored =
                    bytes[..<written.lowerBound] + Array(old.utf8) + bytes[written.upperBound...]
                #expect(Array(restored) == Array(document.utf8), "seed \(seed): \(path)")
            }
        }
    }

    /// For any bytes: no crash, and an edit of JSON results in JSON.
    @Test(arguments: 0..<40) func damagedDocumentsAreHandled(seed: Int) throws {
        var random = RandomDocuments(seed: 3_000 + UInt64(seed))
        for _ in 0..<100 {
            let text = random.document()
            let path = random.path(random.steps(in: try value(of: text)))
            var document = Array(text.utf8)
            for _ in 0...random.below(3) { damage(&document, &random) }
            let isJSON = document.withView { JSONGrammar.accepts($0) }
            for operation in EditOperation.allCases {
                let value = operation == .counter ? "1" : random.value(depth: 1)
                let edit = Edit(operation, path, value, makesParents: random.chance(oneIn: 2))
                _ = edit.apply(to: document) { _, bytes in
                    let remains = bytes.withView { JSONGrammar.accepts($0) }
                    #expect(remains || !isJSON, "seed \(seed): \(edit) of \(document)")
                }
            }
        }
    }

    private func damage(_ document: inout [UInt8], _ random: inout RandomDocuments) {
        guard !document.isEmpty else { return }
        let place = random.below(document.count)
        switch random.below(4) {
        case 0: document.removeSubrange(place...)
        case 1: document.remove(at: place)
        case 2: document[place] = random.pick(Array(#"{}[]",:\u0 eE-.tfn"#.utf8))
        default: document.insert(UInt8(random.below(256)), at: place)
        }
    }
}

extension String {
    fileprivate var trimmed: String {
        var bytes = utf8[...]
        while let first = bytes.first, first <= 0x20 { bytes.removeFirst() }
        while let last = bytes.last, last <= 0x20 { bytes.removeLast() }
        return String(decoding: bytes, as: UTF8.self)
    }
}
