/// The errors of one view: how many of each kind, and the last ones.
///
/// - Bounded: `recentMax` errors with texts of bounded length.
package struct ScriptErrors: Hashable, Sendable {
    package enum Kind: String, Hashable, Sendable, CaseIterable {
        case threw
        case timedOut
        /// The call ended its process.
        case memory
        case keyTooLong
        case emittedTooMuch
        case reductionTooLong
        case notJSON
        case invalidReply
    }

    /// One error.
    package struct Entry: Hashable, Sendable {
        package let kind: Kind
        /// The document's id, cut to `idBytesMax`; empty for a reduction.
        package let id: String
        /// The line of the author's text, from 1 on; 0 if unknown.
        package let line: UInt32
        /// Cut to `textBytesMax`.
        package let text: String

        package init(_ kind: Kind, id: String, line: UInt32, text: String) {
            self.kind = kind
            self.id = ScriptErrors.cut(id, ScriptErrors.idBytesMax)
            self.line = line
            self.text = ScriptErrors.cut(text, ScriptErrors.textBytesMax)
        }
    }

    package static let recentMax = 20
    package static let idBytesMax = 250
    package static let textBytesMax = 1_024
    package static let reportNanoseconds: UInt64 = 60_000_000_000

    /// Errors since the view was defined, by kind; kinds without errors are missing.
    package private(set) var counts: [Kind: Int] = [:]
    /// The last errors, the newest last.
    package private(set) var recent: [Entry] = []
    private var reported: [Kind: Int] = [:]
    private var nextReport: UInt64 = 0

    package init() {}

    package mutating func record(_ entry: Entry) {
        counts[entry.kind, default: 0] += 1
        if recent.count == ScriptErrors.recentMax { recent.removeFirst() }
        recent.append(entry)
    }

    /// The errors since the last report, for the log; nil if there are none, or if the last report
    /// is less than a minute old.
    package mutating func report(now: UInt64) -> [Kind: Int]? {
        guard now >= nextReport else { return nil }
        let new = counts.filter { $1 > reported[$0] ?? 0 }
        guard !new.isEmpty else { return nil }
        let report = Dictionary(
            uniqueKeysWithValues: new.map { ($0.key, $0.value - (reported[$0.key] ?? 0)) }
        )
        reported = counts
        nextReport = now + ScriptErrors.reportNanoseconds
        return report
    }

    /// The longest prefix of whole characters with at most `bytesMax` bytes.
    private static func cut(_ text: String, _ bytesMax: Int) -> String {
        guard text.utf8.count > bytesMax else { return text }
        var end = text.utf8.index(text.startIndex, offsetBy: bytesMax)
        while end.samePosition(in: text.unicodeScalars) == nil {
            end = text.utf8.index(before: end)
        }
        return String(text[..<end])
    }
}
