import Foundation
import Testing

/// No indefinite persons and no pronouns of persons, in code or prose: STYLE.md, *Words*.
///
/// A sentence about "whoever" has to be decoded; one about the orchestrator does not. The rule
/// compares whole words, of identifiers split at capitals and underscores too.
@Suite struct PlainWordsTests {
    struct Finding {
        let file: String
        let line: Int
        let word: String
        let text: String
    }

    static let banned: Set<String> = [
        "whoever", "whomever", "whom", "nobody", "somebody", "anybody", "he", "his",
    ]

    /// Texts that are not checked at all: the list itself, and the history of versions.
    static let unchecked: Set<String> = [
        "Tests/TidyTests/PlainWordsTests.swift", "CHANGELOG.md",
    ]

    let house: House

    init() throws {
        house = try House.shared.get()
    }

    @Test func textsContainNoIndefinitePersons() throws {
        let findings = try findings()
        for finding in findings {
            Issue.record("\(finding.file):\(finding.line): “\(finding.word)”: \(finding.text)")
        }
    }

    /// Comments begin with a noun or a verb, not with a word that stands for one: STYLE.md, *Words*.
    @Test func commentsOfSourcesBeginWithNounsOrVerbs() throws {
        let words = ["What ", "That of ", "Also ", "Else ", "Behind ", "As of "]
        for file in house.swiftFiles where file.path.hasPrefix("Sources/") {
            for (index, line) in file.lines.enumerated() {
                let text = line.drop { $0 == " " }
                guard text.hasPrefix("//") else { continue }
                let comment = text.drop { $0 == "/" || $0 == " " }
                if words.contains(where: comment.hasPrefix) {
                    Issue.record("\(file.path):\(index + 1): \(comment)")
                }
            }
        }
    }

    @Test(arguments: [
        ("isHeHere", true), ("ask_whom", true), ("NOBODY", true), ("\"\\nhis node\"", true),
        ("Whoever leads", true), ("askHTTPNobody", true), ("this history, the hero, whole", false),
        ("HEAD", false), ("thisHeader", false), ("\"\\the\"", true),
    ]) func wordsAreComparedWhole(line: String, isBanned: Bool) {
        #expect(Self.hasBannedWord(line[...]) == isBanned)
    }

    /// Everything that is code or prose, with the added lines of the planted mistakes.
    private func texts() throws -> [SourceFile] {
        let kinds: Set = ["swift", "py", "sh", "md", "js", "html", "css", "c", "cpp", "h", ""]
        let texts = house.texts.filter { file in
            let kind = URL(filePath: file.path).pathExtension
            let isData = file.path.hasPrefix("Fuzzing/Seeds/")
            return kinds.contains(kind) && !isData && !Self.unchecked.contains(file.path)
        }
        return try texts
            + house.patches().map { patch in
                // A line that is not added stays as an empty one, so that line numbers are right.
                let lines = patch.lines.map { line in
                    line.hasPrefix("+") && !line.hasPrefix("+++") ? line.dropFirst() : ""
                }
                return SourceFile(path: patch.path, text: lines.joined(separator: "\n"))
            }
    }

    private func findings() throws -> [Finding] {
        try texts().flatMap { file in
            file.lines.enumerated().flatMap { index, line in
                Words.all(of: line).filter(Self.banned.contains).map { word in
                    Finding(
                        file: file.path,
                        line: index + 1,
                        word: word,
                        text: String(line.drop { $0 == " " })
                    )
                }
            }
        }
    }

    private static func hasBannedWord(_ line: Substring) -> Bool {
        Words.all(of: line).contains(where: banned.contains)
    }
}
