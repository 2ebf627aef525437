import Foundation

/// The public tables and scripts, if there is a `shared` folder beside the checkout.
///
/// They are read in place and never copied. `DIVAN_SHARED` names the folder for a checkout
/// elsewhere (a scratch copy); without it, each parent folder is searched for one.
enum Fixtures {
    static let folder: URL? = {
        let inside = "conformance/etcd-raft"
        let named = ProcessInfo.processInfo.environment["DIVAN_SHARED"] ?? ""
        if !named.isEmpty {
            return present(URL(filePath: named).appending(path: inside))
        }
        var place = URL(filePath: #filePath).deletingLastPathComponent()
        while place.path != "/" {
            if let found = present(place.appending(path: "shared").appending(path: inside)) {
                return found
            }
            place = place.deletingLastPathComponent().standardized
        }
        return nil
    }()

    static var isMissing: Bool { folder == nil }

    private static func present(_ folder: URL) -> URL? {
        FileManager.default.fileExists(atPath: folder.path) ? folder : nil
    }

    static func names(in part: String) throws -> [String] {
        guard let folder else { return [] }
        return try FileManager.default
            .contentsOfDirectory(atPath: folder.appending(path: part).path).sorted()
    }

    static func directives(of path: String) throws -> [Directive] {
        guard let folder else { return [] }
        let text = try String(contentsOf: folder.appending(path: path), encoding: .utf8)
        return Directive.all(in: text)
    }
}

/// One step of a table or script: a command, and the output recorded for it.
///
/// A file is a sequence of them: comments, a line with the command, further lines of input, four
/// hyphens, the output, an empty line.
struct Directive {
    var line: Int
    var command: String
    /// The words of the command line that are not `name=value`.
    var words: [String] = []
    /// The words that are `name=value`, by name: `(1,2)` is a list, anything else a list of one.
    var options: [String: [String]] = [:]
    var input: [String] = []
    var answer: [String] = []

    static func all(in text: String) -> [Directive] {
        var result: [Directive] = []
        var current: Directive?
        var isAnswer = false
        for (place, line) in text.split(separator: "\n", omittingEmptySubsequences: false)
            .enumerated()
        {
            if line.isEmpty {
                // An empty line matters only after an output: it ends the directive.
                if isAnswer, let done = current { result.append(done) }
                if isAnswer { (current, isAnswer) = (nil, false) }
            } else if isAnswer {
                current?.answer.append(String(line))
            } else if line == "----" {
                isAnswer = true
            } else if current != nil {
                current?.input.append(String(line))
            } else if !line.hasPrefix("#") {
                current = Directive(line: place + 1, commandLine: line)
            }
        }
        if let current { result.append(current) }
        return result
    }

    private init(line: Int, commandLine: Substring) {
        self.line = line
        var words: [String] = [""]
        var isInside = false
        for character in commandLine {
            if character == "(" { isInside = true }
            if character == ")" { isInside = false }
            if character == " ", !isInside {
                words.append("")
            } else if character != " " {
                words[words.count - 1].append(character)
            }
        }
        words.removeAll { $0.isEmpty }
        command = words.removeFirst()
        for word in words {
            guard let equal = word.firstIndex(of: "="), !word.hasPrefix("\"") else {
                self.words.append(word)
                continue
            }
            var value = word[word.index(after: equal)...]
            if value.hasPrefix("("), value.hasSuffix(")") { value = value.dropFirst().dropLast() }
            options[String(word[..<equal])] = value.split(separator: ",").map { String($0) }
        }
    }

    func isOn(_ option: String) -> Bool { options[option] == ["true"] }

    func number(_ option: String) -> UInt64? { options[option]?.first.flatMap { UInt64($0) } }
}
