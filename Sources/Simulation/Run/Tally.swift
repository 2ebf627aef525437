/// Counts by group and kind, of one run or of many.
///
/// - `line` can be parsed to the same value, since processes of a swarm exchange it. So a kind is
///   one word.
package struct Tally: Hashable, Sendable {
    package enum Group: String, CaseIterable, Sendable {
        /// Clients' operations with a response.
        case operation
        case fault
        /// An administrator's requests.
        case action
        /// Changes of the cluster: failovers, promotions, moves.
        case change
        /// Items that the checkers examined.
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

    /// The sum of all kinds of a group.
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

    /// Parses `line`; nil if the text is not a tally's line.
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
