import Bytes
import Foundation
import JSON
import Testing

/// A file of the public JSON parsing test suite: `y_` must be accepted, `n_` refused, `i_` may be
/// either.
struct ParsingCase: CustomTestStringConvertible {
    let name: String
    let bytes: [UInt8]

    var testDescription: String { name }

    /// Nil if there is no `shared` folder beside the checkout.
    static let folder: URL? = {
        let here = URL(filePath: #filePath).deletingLastPathComponent()
        let places = ["../../..", "../../../.."].map {
            here.appending(path: "\($0)/shared/conformance/json-parsing").standardized
        }
        return places.first { FileManager.default.fileExists(atPath: $0.path) }
    }()

    static func all() throws -> [ParsingCase] {
        guard let folder else { return [] }
        return try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
            .filter { $0.hasSuffix(".json") }
            .map { name in
                let data = try Data(contentsOf: folder.appending(path: name))
                return ParsingCase(name: name, bytes: [UInt8](data))
            }
    }
}

@Suite struct ConformanceTests {
    @Test(.enabled(if: ParsingCase.folder != nil, "../shared/conformance/json-parsing is missing"))
    func filesOfTheParsingSuiteAreAcceptedOrRefusedByTheirNames() throws {
        let cases = try ParsingCase.all()
        try #require(cases.count > 300)
        let validator = JSONValidator()
        for file in cases {
            file.bytes.withView { view in
                let isDocument = validator.isDocument(view)
                if file.name.hasPrefix("y_") {
                    #expect(isDocument, "\(file.name)")
                    #expect(JSONValue.parse(view) != nil, "\(file.name)")
                } else if file.name.hasPrefix("n_") {
                    #expect(!isDocument, "\(file.name)")
                    #expect(JSONValue.parse(view) == nil, "\(file.name)")
                } else {
                    _ = JSONValue.parse(view)
                }
                #expect(isDocument == JSONGrammar.accepts(view), "\(file.name)")
            }
        }
    }
}
