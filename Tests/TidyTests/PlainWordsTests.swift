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

    /// Lines that may have such a word, because a protocol or a data set has it.
    ///
    /// Each names a file and what the line contains; an entry that matches nothing fails.
    static let exempt: [(file: String, content: String)] = []

    /// Texts that are not checked at all: the list itself, and the history of versions.
    static let unchecked: Set<String> = [
        "Tests/TidyTests/PlainWordsTests.swift", "CHANGELOG.md",
    ]

    /// Folders that still have such words.
    ///
    /// The list only shrinks: a folder in it that has none fails.
    static let notYetPlain: Set<String> = [
        "Sources/ClusterService",
        "Sources/DataService",
        "Sources/Engine",
        "Sources/HTTPFrontend",
        "Sources/LinuxPlatform",
        "Sources/Orchestration",
        "Sources/Replication",
        "Sources/Server",
        "Sources/Shims",
        "Sources/Simulation",
        "Sources/Vocabulary",
        "Sources/Wire",
        "Sources/divan-server",
        "Tests/ClusterServiceTests",
        "Tests/DataServiceTests",
        "Tests/EngineTests",
        "Tests/HTTPFrontendTests",
        "Tests/LinuxPlatformTests",
        "Tests/OrchestrationTests",
        "Tests/ProtocolTests",
        "Tests/ReplicationTests",
        "Tests/Sabotage",
        "Tests/SimulationTests",
        "Tests/TestWorld",
        "Tests/WireTests",
    ]

    let house: House

    init() throws {
        house = try House.shared.get()
    }

    @Test func onlyFoldersOfTheListNamePersons() throws {
        let findings = try findings()
        for finding in findings where !Self.notYetPlain.contains(Self.folder(of: finding.file)) {
            Issue.record("\(finding.file):\(finding.line): “\(finding.word)”: \(finding.text)")
        }
    }

    @Test func foldersOfTheListAreNotPlainYet() throws {
        let folders = Set(try findings().map { Self.folder(of: $0.file) })
        for folder in Self.notYetPlain.sorted() where !folders.contains(folder) {
            Issue.record("\(folder) is plain: take it out of notYetPlain")
        }
    }

    @Test func everyExemptLineExists() throws {
        let texts = try texts()
        for (file, content) in Self.exempt {
            let lines = texts.first { $0.path == file }?.lines ?? []
            let isUsed = lines.contains { $0.contains(content) && Self.hasBannedWord($0) }
            #expect(isUsed, "\(file): no line with a word of the list contains \(content)")
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
            let contents = Self.exempt.filter { $0.file == file.path }.map(\.content)
            return file.lines.enumerated().flatMap { index, line in
                contents.contains { line.contains($0) }
                    ? []
                    : Words.all(of: line).filter(Self.banned.contains).map { word in
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

    /// `Sources/Engine` for what lies in it, `Tests` for what lies directly there, and `.` for the
    /// root.
    private static func folder(of path: String) -> String {
        let parts = path.split(separator: "/").dropLast()
        guard let first = parts.first else { return "." }
        let isDivided = first == "Sources" || first == "Tests"
        return parts.prefix(isDivided ? 2 : 1).joined(separator: "/")
    }
}
