/// One text of the repository, and what the tidy tests see in it.
struct SourceFile: Sendable {
    let path: String
    let text: String
    let lines: [Substring]
    let code: [String]

    struct Function {
        let line: Int
        let name: String
        let length: Int
    }

    init(path: String, text: String) {
        self.path = path
        self.text = text
        lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        code = path.hasSuffix(".swift") ? SourceFile.code(of: lines) : lines.map(String.init)
    }

    var isSwift: Bool { path.hasSuffix(".swift") }

    /// The lines with their comments and the content of their strings taken out.
    ///
    /// Byte by byte, because a regular expression on every line of the house takes many seconds.
    private static func code(of lines: [Substring]) -> [String] {
        var isInText = false
        return lines.map { line in
            if line.contains("\"\"\"") {
                isInText.toggle()
                if isInText { return String(line.prefix { $0 != "\"" }) }
                return String(line.drop { $0 != "\"" }.drop { $0 == "\"" })
            }
            if isInText { return "" }
            var code: [UInt8] = []
            var isInString = false
            var bytes = line.utf8.makeIterator()
            var before: UInt8 = 0
            while let byte = bytes.next() {
                if isInString {
                    if byte == UInt8(ascii: "\\") { _ = bytes.next() }
                    if byte == UInt8(ascii: "\"") { isInString = false }
                    continue
                }
                if byte == UInt8(ascii: "/"), before == byte {
                    code.removeLast()
                    break
                }
                if byte == UInt8(ascii: "\"") { isInString = true }
                code.append(byte)
                before = byte
            }
            return String(decoding: code, as: UTF8.self)
        }
    }

    /// The functions and initialisers that have a body, with their lengths in lines.
    var functions: [Function] {
        var found: [Function] = []
        for (start, line) in code.enumerated() where line.contains("func ") || line.contains("init")
        {
            guard let match = line.firstMatch(of: /\b(func +[^ (<]+|init[?]?(?=[<(]))/),
                !line.contains("self.init"), !line.contains(".init("),
                let end = SourceFile.endOfBody(code, from: start, line[match.range.lowerBound...])
            else { continue }
            found.append(
                Function(line: start + 1, name: String(match.1), length: end - start + 1)
            )
        }
        return found
    }

    /// The line of the brace that ends the body which begins at or after `start`; nil where a
    /// requirement has none.
    private static func endOfBody(
        _ code: [String],
        from start: Int,
        _ firstLine: Substring
    ) -> Int? {
        var parentheses = 0
        var braces = 0
        for index in start..<code.count {
            for character in index == start ? firstLine : code[index][...] {
                switch character {
                case "(", "[": parentheses += 1
                case ")", "]": parentheses -= 1
                case "{": braces += 1
                case "}":
                    braces -= 1
                    if braces == 0 { return index }
                    if braces < 0 { return nil }
                default: break
                }
            }
            let next = index + 1 < code.count ? code[index + 1].drop { $0 == " " } : ""
            let goesOn = ["->", "where ", "{", "throws", "async", ")"].contains {
                next.hasPrefix($0)
            }
            if braces == 0, parentheses == 0, !goesOn { return nil }
        }
        return nil
    }

    private static let declarations: Set<String> = [
        "struct", "class", "enum", "actor", "protocol", "typealias", "func", "var", "let", "case",
    ]

    /// The names that the file declares: types, functions, properties, cases.
    var declaredNames: [(line: Int, kind: String, name: String)] {
        code.enumerated().flatMap { index, line in
            // Without regular expressions, as above.
            let words = line.utf8.split(separator: UInt8(ascii: " ")).map { word in
                word.split { !SourceFile.isOfName($0) }.map { String(decoding: $0, as: UTF8.self) }
            }
            var found: [(line: Int, kind: String, name: String)] = []
            for (before, after) in zip(words, words.dropFirst()) {
                guard let kind = before.last, let name = after.first,
                    SourceFile.declarations.contains(kind)
                else { continue }
                found.append((index + 1, kind, name))
            }
            return found
        }
    }

    private static func isOfName(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), 0x80...:
            true
        default: false
        }
    }
}
