import Foundation
import Testing

/// The planted mistakes of Tests/Sabotage.
///
/// No test looks for a mistake whose patch no longer applies.
@Suite struct SabotageTests {
    private struct Hunk {
        let path: String
        /// What has to be in the file, in one piece: lines that stay and lines that go.
        var before = ""
    }

    private func hunks(_ patch: String) -> [Hunk] {
        var hunks: [Hunk] = []
        var path = ""
        for line in patch.split(separator: "\n", omittingEmptySubsequences: false) {
            if line.hasPrefix("--- a/") {
                path = String(line.dropFirst(6))
            } else if line.hasPrefix("@@") {
                hunks.append(Hunk(path: path))
            } else if line.hasPrefix(" ") || line.hasPrefix("-"), !hunks.isEmpty {
                hunks[hunks.count - 1].before += line.dropFirst() + "\n"
            }
        }
        return hunks
    }

    @Test func plantedMistakesApplyToSources() throws {
        let house = try House.shared.get()
        for patch in try house.patches() {
            let hunks = hunks(patch.text)
            #expect(!hunks.isEmpty, "\(patch.path) changes nothing")
            for hunk in hunks {
                let text = house.text(hunk.path)?.text ?? ""
                #expect(text.contains(hunk.before), "\(patch.path) does not apply to \(hunk.path)")
            }
        }
    }

    @Test func plantedMistakesNameTheirTestsAndDetectionRates() throws {
        let house = try House.shared.get()
        let list = try #require(house.text("Tests/Sabotage/README.md")).text
        for patch in try house.patches() {
            let name = (patch.path as NSString).lastPathComponent.dropLast(6)
            #expect(list.contains("`\(name)`"), "\(name) is not in the list")
            #expect(patch.text.hasPrefix("Plants: "))
            let isTested = patch.text.contains("\nCaught by: ")
            let fields = ["Simulator", "Says", "Rate"].filter {
                patch.text.contains("\n\($0): ")
            }
            #expect(fields.isEmpty || fields.count == 3, "\(patch.path) has \(fields) only")
            #expect(isTested || !fields.isEmpty, "\(patch.path) names no one who finds it")
        }
    }

    /// A renamed test would leave its mistakes without a test, and only `run` would notice.
    @Test func testsNamedByPlantedMistakesExist() throws {
        let house = try House.shared.get()
        for patch in try house.patches() {
            let named = patch.text.split(separator: "\n").first { $0.hasPrefix("Caught by: ") }
            for name in (named?.dropFirst("Caught by: ".count) ?? "").split(separator: "|") {
                let parts = name.split(whereSeparator: { ".(/".contains($0) }).map(String.init)
                try #require(parts.count >= 2, "\(patch.path) names \(name)")
                let tests = house.texts.filter { text in
                    text.isSwift && text.path.hasPrefix("Tests/\(parts[0])/")
                        && ["struct", "class"].contains { text.text.contains("\($0) \(parts[1]) ") }
                }
                #expect(!tests.isEmpty, "\(patch.path): there is no suite \(name)")
                guard parts.count > 2 else { continue }
                let isThere = tests.contains { $0.text.contains("func \(parts[2])(") }
                #expect(isThere, "\(patch.path): there is no test \(name)")
            }
        }
    }
}
