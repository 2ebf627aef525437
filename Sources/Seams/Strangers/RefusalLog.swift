/// Which refused logins, or connections of other nodes, are logged: at most one a second, with the
/// number of those that were not.
package struct RefusalLog: Sendable {
    package static let pauseNanoseconds: UInt64 = 1_000_000_000
    /// Characters of a name that are logged.
    private static let nameCharactersMax = 64

    private var nextLine: UInt64 = 0
    private var skippedCount = 0

    package init() {}

    /// The line for a refused login; nil if a line was logged less than a second ago.
    package mutating func line(_ user: String, _ address: String, at now: UInt64) -> String? {
        line("refused a login as \"\(Self.printable(user))\" from \(address)", at: now)
    }

    /// The line for any refusal; nil if a line was logged less than a second ago.
    package mutating func line(_ text: @autoclosure () -> String, at now: UInt64) -> String? {
        guard now >= nextLine else {
            skippedCount += 1
            return nil
        }
        nextLine = now + Self.pauseNanoseconds
        let others = skippedCount == 0 ? "" : ", and \(skippedCount) more since the last such line"
        skippedCount = 0
        return text() + others
    }

    /// The name without what could make a second line, or change a terminal.
    private static func printable(_ user: String) -> String {
        let characters = user.unicodeScalars.prefix(nameCharactersMax).map { scalar in
            scalar.value < 0x20 || scalar.value == 0x7f || scalar == "\"" ? "?" : scalar
        }
        return String(String.UnicodeScalarView(characters))
            + (user.unicodeScalars.count > nameCharactersMax ? "..." : "")
    }
}
