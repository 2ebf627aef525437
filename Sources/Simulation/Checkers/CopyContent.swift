package import Vocabulary

/// What one copy of a vBucket holds, and which histories it speaks of.
package struct CopyContent: Hashable, Sendable {
    package struct Version: Hashable, Sendable, CustomStringConvertible {
        package let seqno: Seqno
        package let cas: CAS
        /// Nil where memory does not have it.
        package let value: [UInt8]?
        package let isDeleted: Bool

        package init(seqno: Seqno, cas: CAS, value: [UInt8]?, isDeleted: Bool) {
            self.seqno = seqno
            self.cas = cas
            self.value = value
            self.isDeleted = isDeleted
        }

        /// As far as both are in memory.
        func agrees(with other: Version) -> Bool {
            let isSame = seqno == other.seqno && cas == other.cas && isDeleted == other.isDeleted
            guard isSame, !isDeleted, let value, let others = other.value else { return isSame }
            return value == others
        }

        package var description: String {
            "\(seqno.value) \(isDeleted ? "removed" : RegisterOperation.text(value))"
        }
    }

    package var log: FailoverLog
    /// Up to here nothing is missing.
    package var covered: Seqno
    package var documents: [[UInt8]: Version]
    /// Durable writes that are neither committed nor aborted.
    package var prepares = 0

    package init(log: FailoverLog, covered: Seqno, documents: [[UInt8]: Version]) {
        self.log = log
        self.covered = covered
        self.documents = documents
    }
}

/// Whether two copies agree on the past that they have in common.
///
/// - Up to the last seqno of which both say that it is of the same history, each has the other's
///   newest version of every key, or a newer one.
/// - In a log neither seqnos nor fences fall with time.
package enum CommonHistory {
    /// Up to where both speak of the same history; nil where there is none.
    package static func end(_ one: CopyContent, _ other: CopyContent) -> Seqno? {
        for entry in one.log.entries {
            guard let its = one.log.end(of: entry.uuid, high: one.covered),
                let others = other.log.end(of: entry.uuid, high: other.covered)
            else { continue }
            return min(its, others, one.covered, other.covered)
        }
        return nil
    }

    /// What is wrong between two copies, in a sentence; nil where nothing is.
    package static func flaw(_ one: CopyContent, _ other: CopyContent) -> String? {
        guard let end = end(one, other), end > .zero else { return nil }
        return missing(from: other, of: one, to: end) ?? missing(from: one, of: other, to: end)
    }

    private static func missing(
        from other: CopyContent,
        of one: CopyContent,
        to end: Seqno
    ) -> String? {
        var first: (key: [UInt8], text: String)?
        for (key, version) in one.documents where version.seqno <= end {
            let found = other.documents[key]
            if let found, found.seqno > version.seqno || found.agrees(with: version) { continue }
            // A tombstone may have been forgotten.
            if found == nil, version.isDeleted { continue }
            if let first, first.key.lexicographicallyPrecedes(key) { continue }
            let name = String(decoding: key, as: UTF8.self)
            let text = found.map { "\($0)" } ?? "nothing"
            first = (
                key,
                "\(name) is \(version) in one copy and \(text) in another, of \(end.value) common"
            )
        }
        return first?.text
    }

    /// What is wrong with a log; nil where nothing is.
    package static func flaw(_ log: FailoverLog) -> String? {
        for (newer, older) in zip(log.entries, log.entries.dropFirst()) {
            if newer.seqno < older.seqno { return "a history began before the one it followed" }
            if newer.fence < older.fence { return "a history of an older fence followed" }
        }
        return nil
    }
}
