import Bytes
import Foundation
import JSON
import Testing

/// The contract's table of pairs: key, key, order.
@Suite struct CollationFileTests {
    /// Nil if there is no `shared` folder beside the checkout.
    static let file: URL? = ParsingCase.folder?.deletingLastPathComponent()
        .appending(path: "collation.tsv")

    @Test(.enabled(if: file != nil, "../shared/conformance/collation.tsv is missing"))
    func sortKeysHaveTheOrderOfTheCollationFile() throws {
        let collation = try Collation()
        let text = try String(contentsOf: #require(Self.file), encoding: .utf8)
        let rows = text.split(separator: "\n").map { $0.split(separator: "\t") }
        try #require(rows.count > 80)
        for row in rows {
            try #require(row.count == 3)
            let order = try #require(Int(row[2]))
            // The file doubles the backslashes of escapes; both readings have the same order.
            for (from, to) in [("\\\\", "\\\\"), ("\\\\", "\\")] {
                let keys = row[..<2].map { collation.key($0.replacing(from, with: to)) }
                let (one, other) = try (#require(keys[0]), #require(keys[1]))
                let found = one == other ? 0 : one.lexicographicallyPrecedes(other) ? -1 : 1
                #expect(found == order, "\(row)")
            }
        }
    }

    @Test func chainsOfTheContractIncrease() throws {
        let collation = try Collation()
        let chains = [
            ["null", "false", "true", "1", #""a""#, "[]", "{}"],
            [#""a""#, #""A""#, #""aa""#, #""b""#, #""B""#, #""ba""#, #""bb""#],
            [
                #"["a"]"#, #"["b"]"#, #"["b","c"]"#, #"["b","c","a"]"#, #"["b","d"]"#,
                #"["b","d","e"]"#,
            ],
            [
                #"{"a":1}"#, #"{"a":2}"#, #"{"b":1}"#, #"{"b":2}"#, #"{"b":2,"a":1}"#,
                #"{"b":2,"c":2}"#,
            ],
            ["-1e400", "-1e308", "-1", "-1e-320", "0", "1e-320", "1", "1e308", "1e400"],
            // Equal to ICU; the bytes order them.
            [#""e\u0301""#, #""\u00e9""#],
        ]
        for chain in chains {
            let keys = try chain.map { try #require(collation.key($0)) }
            for (one, other) in zip(keys, keys.dropFirst()) {
                #expect(one.lexicographicallyPrecedes(other), "\(chain)")
            }
        }
    }
}
