internal import Bytes

/// Something of a configuration that has no effect; the caller logs each once.
package struct ConfigurationNotice: Equatable, Sendable {
    package enum Kind: Sendable {
        /// A key of Sync Gateway that needs no counterpart here.
        case withoutEffect
        /// A key that no release has, probably a misspelling; only in the dialect 1.4, the other refuses it.
        case unknown
    }

    package let position: SourcePosition
    package let path: String
    package let kind: Kind
}

/// A value of a configuration, for mistakes that are found after the file was read.
struct ConfigurationLocation: Equatable, Sendable {
    let position: SourcePosition
    let path: String
}

/// Reads the members of one object of a configuration, and at the end reports those that were not read.
///
/// Keys of objects with a fixed set of keys are compared without the case of ASCII letters, as Go does; names of
/// databases, users and roles are exact. Of equal keys the last counts.
struct ConfigurationReader {
    let context: ConfigurationContext
    let path: String
    private let tree: ConfigurationTree
    private let members: [ConfigurationTree.Member]
    private var readKeys: Set<String> = []

    /// - Throws: `tree` is no object.
    init(
        _ tree: ConfigurationTree,
        path: String,
        context: ConfigurationContext
    ) throws(ConfigurationMistake) {
        self.tree = tree
        self.path = path
        self.context = context
        guard case .object(let members) = tree.kind else {
            throw context.mistake(tree, path, reason: "expected an object, found \(tree.kindName)")
        }
        self.members = members
    }

    /// The value of a key, or without it of the key with which another release has the same setting.
    ///
    /// Nil if both are absent or null.
    mutating func value(_ key: String, or other: String? = nil) -> ConfigurationTree? {
        for name in [key, other].compactMap(\.self) { readKeys.insert(name.lowercased()) }
        if let value = member(key)?.value, !value.isNull { return value }
        guard let other, let value = member(other)?.value, !value.isNull else { return nil }
        return value
    }

    private func member(_ key: String) -> ConfigurationTree.Member? {
        members.last { member in member.name.withView { ASCII.equals($0, key) } }
    }

    /// - Throws: The value has another type.
    mutating func string(
        _ key: String,
        or other: String? = nil
    ) throws(ConfigurationMistake) -> String? {
        guard let value = value(key, or: other) else { return nil }
        guard case .string(let text) = value.kind else {
            throw mistake(value, key, expected: "a string")
        }
        return text
    }

    /// - Throws: The value has another type.
    mutating func bool(_ key: String) throws(ConfigurationMistake) -> Bool? {
        guard let value = value(key) else { return nil }
        guard case .bool(let claim) = value.kind else {
            throw mistake(value, key, expected: "true or false")
        }
        return claim
    }

    /// A number without sign and fraction.
    ///
    /// - Throws: The value has another type or is not in `range`.
    mutating func integer(
        _ key: String,
        or other: String? = nil,
        in range: ClosedRange<Int> = 0...Int(Int32.max)
    ) throws(ConfigurationMistake) -> Int? {
        guard let value = value(key, or: other) else { return nil }
        guard case .number(let number) = value.kind, let integer = Int(exactly: number),
            range.contains(integer)
        else {
            let expected = "a whole number from \(range.lowerBound) to \(range.upperBound)"
            throw mistake(value, key, expected: expected)
        }
        return integer
    }

    /// - Throws: The value is no array of strings.
    mutating func strings(
        _ key: String,
        or other: String? = nil
    ) throws(ConfigurationMistake) -> [String]? {
        guard let value = value(key, or: other) else { return nil }
        guard case .array(let elements) = value.kind else {
            throw mistake(value, key, expected: "an array of strings")
        }
        var strings: [String] = []
        for element in elements {
            guard case .string(let text) = element.kind else {
                throw mistake(element, key, expected: "a string")
            }
            strings.append(text)
        }
        return strings
    }

    /// A reader for an object with a fixed set of keys; nil if the key is absent.
    ///
    /// - Throws: The value is no object.
    mutating func section(_ key: String) throws(ConfigurationMistake) -> ConfigurationReader? {
        guard let value = value(key) else { return nil }
        return try ConfigurationReader(value, path: path(of: key), context: context)
    }

    /// Readers for the members of an object whose names are free, by name; of equal names the last.
    ///
    /// A name with the value null is left out.
    ///
    /// - Throws: The value is no object, or a member is none.
    mutating func sections(
        _ key: String
    ) throws(ConfigurationMistake) -> [(name: String, reader: ConfigurationReader)] {
        guard let value = value(key) else { return [] }
        guard case .object(let members) = value.kind else {
            throw mistake(value, key, expected: "an object")
        }
        var readers: [(name: String, reader: ConfigurationReader)] = []
        var indexes: [String: Int] = [:]
        for member in members where !member.value.isNull {
            let path = "\(path(of: key)).\(member.name)"
            let reader = try ConfigurationReader(member.value, path: path, context: context)
            if let index = indexes[member.name] {
                readers[index] = (member.name, reader)
            } else {
                indexes[member.name] = readers.count
                readers.append((member.name, reader))
            }
        }
        return readers
    }

    /// The whole object as JSON.
    var text: [UInt8] { tree.text }

    /// The value as JSON, for settings that another module reads; nil if the key is absent.
    mutating func json(_ key: String) -> [UInt8]? {
        value(key)?.text
    }

    /// Reports the keys that were not read: those in `ignored` as without effect, the others as unknown.
    ///
    /// - Throws: A key is unknown and the dialect refuses these.
    func finish(ignoring ignored: Set<String>) throws(ConfigurationMistake) {
        for member in members {
            let key = member.name.lowercased()
            if readKeys.contains(key) || key.hasPrefix("//") { continue }
            let isKnown = ignored.contains(key)
            if !isKnown, context.dialect == .third {
                let reason = "this key is unknown; remove or correct it"
                throw context.mistake(at: member.nameOffset, path(of: member.name), reason)
            }
            let kind: ConfigurationNotice.Kind = isKnown ? .withoutEffect : .unknown
            context.add(kind, path(of: member.name), at: member.nameOffset)
        }
    }

    func path(of key: String) -> String { path.isEmpty ? key : "\(path).\(key)" }

    /// A mistake of a value, or of the object if `key` is absent.
    func mistake(_ key: String, _ reason: String) -> ConfigurationMistake {
        context.mistake(
            member(key)?.value ?? tree,
            key.isEmpty ? path : path(of: key),
            reason: reason
        )
    }

    /// The location of a value, or of the object if `key` is absent.
    func location(of key: String) -> ConfigurationLocation {
        let offset = (member(key)?.value ?? tree).offset
        return ConfigurationLocation(
            position: context.text.position(of: offset),
            path: path(of: key)
        )
    }

    /// The address of a listener.
    ///
    /// - Throws: The value is no string of the form.
    mutating func address(
        _ key: String,
        or other: String? = nil
    ) throws(ConfigurationMistake) -> ListenAddress? {
        guard let text = try string(key, or: other) else { return nil }
        guard let address = ListenAddress(text) else {
            throw mistake(key, "expected \(ListenAddress.expected), found \"\(text)\"")
        }
        return address
    }

    private func mistake(
        _ value: ConfigurationTree,
        _ key: String,
        expected: String
    ) -> ConfigurationMistake {
        context.mistake(
            value,
            path(of: key),
            reason: "expected \(expected), found \(value.kindName)"
        )
    }
}

/// The text, dialect and notices that all readers of one file share.
final class ConfigurationContext {
    let text: SourceText
    let dialect: GatewayDialect
    private var found: [ConfigurationNotice] = []

    init(text: SourceText, dialect: GatewayDialect) {
        self.text = text
        self.dialect = dialect
    }

    /// An operator needs no more, and each costs a search for its line.
    private static let noticesMax = 1_000

    func add(_ kind: ConfigurationNotice.Kind, _ path: String, at offset: Int) {
        guard found.count < ConfigurationContext.noticesMax else { return }
        let position = text.position(of: offset)
        found.append(ConfigurationNotice(position: position, path: path, kind: kind))
    }

    /// In the order of the file.
    var notices: [ConfigurationNotice] {
        found.sorted {
            ($0.position.line, $0.position.column) < ($1.position.line, $1.position.column)
        }
    }

    func mistake(
        _ value: ConfigurationTree,
        _ path: String,
        reason: String
    ) -> ConfigurationMistake {
        mistake(at: value.offset, path, reason)
    }

    func mistake(at offset: Int, _ path: String, _ reason: String) -> ConfigurationMistake {
        ConfigurationMistake(position: text.position(of: offset), path: path, reason: reason)
    }
}
