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

    @Test func everyPlantedMistakeStillApplies() throws {
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

    @Test func everyPlantedMistakeSaysWhoFindsItAndHowOften() throws {
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
}
