import Foundation
import Testing

/// The documents say what is true: of the plan, of the modules, of the words, of each other.
@Suite struct DocumentTests {
    let house: House

    init() throws {
        house = try House.shared.get()
    }

    @Test func everyModuleHasShortReadmeWithRationale() throws {
        for module in house.modules {
            let path = module.folder + "/README.md"
            let readme = try #require(house.text(path), "\(path) is missing")
            #expect(readme.lines.count <= 32, "\(path) is longer than half a screen")
            // A program only reads its arguments and starts; there is nothing to defend.
            let isProgram = module.floor == "programs"
            let defends = isProgram || readme.text.contains("**Why")
            #expect(defends, "\(path) does not say why its obvious refactoring is wrong")
        }
    }

    @Test func planInArchitectureEqualsManifest() throws {
        let architecture = try #require(house.text("ARCHITECTURE.md"))
        let rows = House.planRows(in: architecture.text).map { $0.joined(separator: " ") }
        #expect(rows == house.plan)
    }

    /// A walk that names a file that is gone leads nowhere.
    @Test func sourceFilesNamedInDocumentsExist() {
        // STYLE.md says what files are called, by names that stand for others.
        let paths = house.texts.map { "/" + $0.path } + ["/Type.swift", "/Type+Aspect.swift"]
        for document in house.documents where document.path != "CHANGELOG.md" {
            for (index, line) in document.lines.enumerated() {
                for match in line.matches(of: /`([\w+\/.-]+\.(?:swift|py|js|txt|sql))`/) {
                    let isThere = paths.contains { $0.hasSuffix("/\(match.1)") }
                    #expect(isThere, "\(document.path):\(index + 1): \(match.1)")
                }
            }
        }
    }

    /// The walk names files by module, and a bare name lies in the module its step began in.
    ///
    /// What else stands in back quotes is in one of the step's files.
    @Test func filesOfEachWalkExist() throws {
        let architecture = try #require(house.text("ARCHITECTURE.md"))
        let steps = architecture.lines.compactMap { line in
            line.firstMatch(of: /^\| +(\d+) \|(.*)/)
        }
        // Each walk counts from one.
        var last = 0
        for number in steps.compactMap({ Int($0.1) }) {
            #expect(number == last + 1 || number == 1 && last > 1, "step \(number)")
            last = number
        }
        try #require(steps.count > 10)
        for step in steps {
            let names = step.2.matches(of: /`([^`]+)`/).map { String($0.1) }
            let files = names.filter { $0.hasSuffix(".swift") }
            let first = try #require(files.first, "step \(step.1) names no file")
            let home = first.split(separator: "/")[0]
            let found = files.map { name in
                let module = house.modules.first { name.hasPrefix("\($0.name)/") }
                let file = house.texts.first {
                    module == nil
                        ? $0.path.hasPrefix("Sources/\(home)/") && $0.path.hasSuffix("/\(name)")
                        : $0.path == "Sources/\(name)"
                }
                if file == nil { Issue.record("step \(step.1): \(name)") }
                return file?.text ?? ""
            }
            for name in names where !name.hasSuffix(".swift") {
                let word = String(name.prefix { $0 != "(" })
                #expect(found.contains { $0.contains(word) }, "step \(step.1): \(name)")
            }
        }
    }

    /// Every floor of the manifest has its row in the table that explains them.
    @Test func everyFloorHasRowInArchitecture() throws {
        let architecture = try #require(house.text("ARCHITECTURE.md"))
        let rows = architecture.lines.compactMap { $0.firstMatch(of: /^\| (\w+) \|/) }
            .map { String($0.1) }
        for floor in Set(house.modules.map(\.floor)) {
            #expect(rows.contains(floor), "\(floor)")
        }
    }

    @Test func targetsOfLinksExist() {
        for document in house.documents {
            let folder = document.path.split(separator: "/").dropLast().joined(separator: "/")
            for (index, line) in document.lines.enumerated() {
                for match in line.matches(of: /\[[^\]]*\]\(([^)#\s]+)[^)]*\)/) {
                    if match.1.contains("://") || match.1.hasPrefix("mailto:") { continue }
                    let path = folder.isEmpty ? String(match.1) : "\(folder)/\(match.1)"
                    #expect(house.exists(path), "\(document.path):\(index + 1): \(match.1)")
                }
            }
        }
    }

    /// One word per thing: the glossary's last column names the words that stay out of our names.
    @Test func namesContainNoWordsExcludedByGlossary() throws {
        let glossary = try #require(house.text("docs/glossary.md"))
        let (banned, excepted) = bannedWords(in: glossary)
        try #require(banned.count > 5)
        for file in house.modules.flatMap(\.files) {
            for (line, kind, name) in file.declaredNames where !excepted.contains(name) {
                for word in Words.all(of: name[...]) where banned.contains(word) {
                    Issue.record("\(file.path):\(line): \(kind) \(name) says “\(word)”")
                }
            }
        }
    }

    /// Paths of one machine mean nothing on another.
    @Test func filesContainNoPathsOfOneMachine() {
        let places = ["/work/", "/home/", "/root/"]  // tidy:allow the list itself
        for file in house.texts {
            for (index, line) in file.lines.enumerated() where !line.contains("tidy:allow") {
                for place in places where line.contains(place) {
                    Issue.record("\(file.path):\(index + 1): \(place)")
                }
            }
        }
    }

    /// The words in back quotes of the table's last column; those that begin with a capital are
    /// names that may stay.
    private func bannedWords(in glossary: SourceFile) -> (Set<String>, excepted: Set<String>) {
        var banned: Set<String> = []
        var excepted: Set<String> = []
        for line in glossary.lines where line.hasPrefix("|") {
            let cells = line.split(separator: "|", omittingEmptySubsequences: false)
            guard cells.count == 5 else { continue }
            for match in cells[3].matches(of: /`(\w+)`/) {
                let word = String(match.1)
                if word.first?.isUppercase == true {
                    excepted.insert(word)
                } else {
                    banned.formUnion([word, word + "s"])
                }
            }
        }
        return (banned, excepted)
    }
}
