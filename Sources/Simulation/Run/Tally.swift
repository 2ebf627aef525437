/// How often what happened, by group and kind: of a run, or of many together.
///
/// - Its text is one line, and comes back as the same value: processes tell each other. So kinds
///   are one word.
package struct Tally: Hashable, Sendable {
    package enum Group: String, CaseIterable, Sendable {
        /// What clients asked for and got an answer to.
        case operation
        case fault
        /// What an administrator asked for.
        case action
        /// What became of the cluster: failovers, promotions, moves.
        case change
        /// What the checkers had to look at.
        case check
    }

    package struct Name: Hashable, Comparable, Sendable, CustomStringConvertible {
        package let group: Group
        package let kind: String

        package init(_ group: Group, _ kind: String) {
            self.group = group
            self.kind = kind
        }

        package static func < (one: Name, other: Name) -> Bool {
            one.description < other.description
        }

        package var description: String { "\(group.rawValue).\(kind)" }
    }

    private var counts: [Name: Int] = [:]

    package init() {}

    package subscript(group: Group, kind: String) -> Int {
        get { counts[Name(group, kind)] ?? 0 }
        set { counts[Name(group, kind)] = newValue }
    }

    package subscript(name: Name) -> Int { counts[name] ?? 0 }

    /// Of all kinds of a group together.
    package func total(_ group: Group) -> Int {
        counts.reduce(0) { $1.key.group == group ? $0 + $1.value : $0 }
    }

    package mutating func add(_ other: Tally) { counts.merge(other.counts, uniquingKeysWith: +) }

    /// The kinds of a group with their counts, in the order of their names.
    package func text(_ group: Group) -> String {
        counts.filter { $0.key.group == group && $0.value != 0 }.sorted { $0.key < $1.key }
            .map { "\($0.key.kind) \($0.value)" }.joined(separator: ", ")
    }

    // MARK: One line

    package var line: String {
        counts.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: " ")
    }

    /// - Returns: Nil where the line is no tally's.
    package init?(line: some StringProtocol) {
        for part in line.split(separator: " ") {
            let sides = part.split(separator: "=")
            let names = sides.first?.split(separator: ".") ?? []
            guard sides.count == 2, names.count == 2, let count = Int(sides[1]),
                let group = Group(rawValue: String(names[0]))
            else { return nil }
            self[group, String(names[1])] += count
        }
    }
}
