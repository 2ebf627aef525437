/// The types, initialisers and throwing functions that a Swift file declares, as far as the
/// rules about their numbers need them.
///
/// Read by hand from the code without comments and strings: the package has no Swift parser, and
/// formatted source needs none.
struct Declarations {
    struct Counted {
        /// The type with the types around it, for example `Bucket.State`.
        let name: String
        let line: Int
        let count: Int
    }

    struct Throwing {
        let name: String
        let line: Int
        let isDocumented: Bool
    }

    /// Stored properties of structs, classes and actors: not computed, not `static`.
    private(set) var storedProperties: [Counted] = []
    /// Functions, properties, initialisers and subscripts that protocols require.
    private(set) var requirements: [Counted] = []
    /// Arguments of initialisers.
    private(set) var arguments: [Counted] = []
    /// Arguments without a label, of functions and initialisers.
    private(set) var unlabelled: [Counted] = []
    /// `package` and `public` functions and initialisers, and requirements of such protocols, that
    /// throw something else than what a closure of the caller throws.
    private(set) var throwing: [Throwing] = []

    private struct Token {
        let text: String
        let line: Int
        /// Whether a blank stands before it.
        let isApart: Bool
    }

    private struct Scope {
        enum Kind { case type, `protocol`, `extension`, other }
        let kind: Kind
        let name: String
        let line: Int
        let isVisible: Bool
        var count = 0
    }

    private let tokens: [Token]
    private let lines: [Substring]
    private var scopes: [Scope] = []

    init(of file: SourceFile) {
        lines = file.lines
        tokens = file.code.enumerated().flatMap { Declarations.tokens(of: $1, line: $0 + 1) }
        scan()
    }

    private static func tokens(of line: String, line number: Int) -> [Token] {
        var found: [Token] = []
        var name: [UInt8] = []
        var isApart = true
        func end() {
            guard !name.isEmpty else { return }
            let text = String(decoding: name, as: UTF8.self)
            found.append(Token(text: text, line: number, isApart: isApart))
            name = []
            isApart = false
        }
        for byte in line.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), 0x80...:
                name.append(byte)
            case UInt8(ascii: "`"): break
            case UInt8(ascii: " "), UInt8(ascii: "\t"):
                end()
                isApart = true
            default:
                end()
                let text = String(UnicodeScalar(byte))
                found.append(Token(text: text, line: number, isApart: isApart))
                isApart = false
            }
        }
        end()
        return found
    }

    /// One pass over the file; `pending` is the type whose brace has not come yet.
    private mutating func scan() {
        let kinds: [String: Scope.Kind] = [
            "struct": .type, "class": .type, "actor": .type, "enum": .other,
            "protocol": .protocol, "extension": .extension,
        ]
        var pending: Scope?
        var parentheses = 0
        for (index, token) in tokens.enumerated() {
            switch token.text {
            case "(", "[": parentheses += 1
            case ")", "]": parentheses -= 1
            case "{":
                let name = scopes.last?.name ?? ""
                let other = Scope(kind: .other, name: name, line: token.line, isVisible: false)
                scopes.append(parentheses == 0 ? pending ?? other : other)
                if parentheses == 0 { pending = nil }
            case "}":
                if let scope = scopes.popLast() { close(scope) }
            default:
                if text(index - 1) == "." || parentheses > 0 && token.text != "init" { continue }
                if let kind = kinds[token.text], isName(text(index + 1)),
                    !["func", "var", "let", "subscript"].contains(text(index + 1))
                {
                    pending = scope(kind, at: index)
                } else {
                    member(at: index)
                }
            }
        }
    }

    private func text(_ index: Int) -> String {
        tokens.indices.contains(index) ? tokens[index].text : ""
    }

    private func isName(_ text: String) -> Bool {
        text.utf8.first.map { $0 == UInt8(ascii: "_") || $0 >= UInt8(ascii: "A") } == true
            && text != "{" && text != "}" && text != "[" && text != "]"
    }

    private func scope(_ kind: Scope.Kind, at index: Int) -> Scope {
        var name = text(index + 1)
        var next = index + 2
        while text(next) == "." {
            name += "." + text(next + 1)
            next += 2
        }
        let outer = scopes.last?.name ?? ""
        return Scope(
            kind: kind,
            name: outer.isEmpty ? name : outer + "." + name,
            line: tokens[index].line,
            isVisible: isVisible(index)
        )
    }

    private mutating func close(_ scope: Scope) {
        let counted = Counted(name: scope.name, line: scope.line, count: scope.count)
        if scope.kind == .type { storedProperties.append(counted) }
        if scope.kind == .protocol { requirements.append(counted) }
    }

    /// Counts what the token begins, if it begins a member of a type.
    private mutating func member(at index: Int) {
        let keyword = text(index)
        guard ["let", "var", "func", "init", "subscript"].contains(keyword),
            let scope = scopes.last, keyword != "init" || "(<?!".contains(text(index + 1))
        else {
            if text(index) == "func", scopes.isEmpty { function(at: index, in: nil) }
            return
        }
        let isStatic = modifiers(before: index).contains { $0 == "static" || $0 == "class" }
        if scope.kind == .protocol { scopes[scopes.count - 1].count += 1 }
        if scope.kind == .type, !isStatic, keyword == "let" || keyword == "var" {
            scopes[scopes.count - 1].count += stored(at: index)
        }
        let isFunction = keyword == "func" || keyword == "init"
        // A body of a function is `other`, as that of an enum: only declarations have modifiers.
        if isFunction { function(at: index, in: scope) }
    }

    /// The words before a declaration's keyword, as far as its line or its attributes go.
    private func modifiers(before index: Int) -> [String] {
        var found: [String] = []
        var next = index - 1
        let words: Set = [
            "package", "public", "open", "internal", "private", "fileprivate", "static", "class",
            "final", "mutating", "nonmutating", "nonisolated", "override", "lazy", "weak",
            "unowned", "borrowing", "consuming", "set", "unsafe", "(", ")", "indirect", "required",
            "convenience",
        ]
        while next >= 0, words.contains(text(next)) {
            found.append(text(next))
            next -= 1
        }
        return found
    }

    private func isVisible(_ index: Int) -> Bool {
        let modifiers = modifiers(before: index)
        return modifiers.contains("package") || modifiers.contains("public")
    }

    /// How many stored properties the `let` or `var` declares.
    private func stored(at index: Int) -> Int {
        var names = 1
        var depth = 0
        var angles = 0
        var next = index + 1
        while next < tokens.count {
            let token = tokens[next]
            let before = tokens[next - 1]
            let isInside = depth > 0 || angles > 0
            // `->` ends in the same character as the arguments of a generic type.
            let isArrow = before.text == ">" && text(next - 2) == "-"
            let goesOn =
                [":", ",", "=", "&"].contains(before.text) || isArrow
                || ["{", "=", "-"].contains(token.text)
            if token.line > before.line, !isInside, !goesOn { return names }
            switch token.text {
            case "(", "[": depth += 1
            case ")", "]": depth -= 1
            case "<" where !token.isApart: angles += 1
            case ">" where angles > 0 && before.text != "-": angles -= 1
            case "=" where !isInside, "}" where !isInside, ";" where !isInside: return names
            case "{" where !isInside:
                return ["willSet", "didSet"].contains(text(next + 1)) ? names : 0
            case "," where !isInside: names += 1
            default: break
            }
            next += 1
        }
        return names
    }

    /// Notes the arguments of an initialiser, and a function that throws without a word on it.
    private mutating func function(at index: Int, in scope: Scope?) {
        let open = tokens[index...].firstIndex { $0.text == "(" } ?? tokens.count
        let generics = tokens[index..<open].map(\.text)
        var depth = 0
        var angles = 0
        var count = 0
        var unlabelledCount = 0
        var close = open
        while close < tokens.count {
            let token = tokens[close]
            switch token.text {
            case "(", "[", "{": depth += 1
            case ")", "]", "}": depth -= 1
            case "<" where !token.isApart: angles += 1
            case ">" where angles > 0 && text(close - 1) != "-": angles -= 1
            // An argument's name and type are around its colon.
            case ":" where depth == 1 && angles == 0:
                count += 1
                if text(close - 2) == "_" { unlabelledCount += 1 }
            default: break
            }
            if depth == 0 { break }
            close += 1
        }
        let owner = scope.map(\.name) ?? ""
        let line = tokens[index].line
        if text(index) == "func" || isDeclared(index) {
            unlabelled.append(Counted(name: owner, line: line, count: unlabelledCount))
        }
        if text(index) == "init", isDeclared(index) {
            arguments.append(Counted(name: owner, line: line, count: count))
        }
        let isRequired = scope?.kind == .protocol && scope?.isVisible == true
        let isHidden = modifiers(before: index).contains { $0.hasSuffix("private") }
        let isMember = scope?.kind == .extension && scope?.isVisible == true && !isHidden
        guard isVisible(index) || isRequired || isMember, throwsItself(after: close, generics)
        else { return }
        let name = text(index) == "func" ? text(index + 1) : "init"
        throwing.append(
            Throwing(
                name: owner.isEmpty ? name : "\(owner).\(name)",
                line: line,
                isDocumented: comment(above: line).contains { $0.contains("- Throws:") }
            )
        )
    }

    /// Whether an `init` is a declaration: a call has something before it on its line.
    private func isDeclared(_ index: Int) -> Bool {
        let before = index - modifiers(before: index).count - 1
        if before < 0 || tokens[before].line < tokens[index].line { return true }
        return text(before) == "{" || text(before) == "}" || text(before) == ";"
            || tokens[before].line == tokens[index].line && isAttribute(before)
    }

    private func isAttribute(_ index: Int) -> Bool { text(index - 1) == "@" }

    /// Whether the signature that goes on after its arguments throws, other than what a type
    /// argument says, or a `CodingFailure`, which `Coded` documents.
    private func throwsItself(after close: Int, _ generics: [String]) -> Bool {
        var next = close + 1
        while ["async", "reasync"].contains(text(next)) { next += 1 }
        guard text(next) == "throws" else { return false }
        return text(next + 1) != "("
            || !generics.contains(text(next + 2))
                && !["Never", "CodingFailure"].contains(text(next + 2))
    }

    /// The documentation above a line, over the attributes and modifiers between.
    private func comment(above line: Int) -> [Substring] {
        var found: [Substring] = []
        for index in stride(from: line - 2, through: 0, by: -1) {
            let text = lines[index].drop { $0 == " " }
            if text.hasPrefix("///") {
                found.append(text)
            } else if !text.hasPrefix("@") || !found.isEmpty {
                break
            }
        }
        return found
    }
}
