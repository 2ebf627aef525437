package import Vocabulary

/// The documents and the failover log of one copy of a vBucket.
package struct CopyContent: Hashable, Sendable {
    package struct Version: Hashable, Sendable, CustomStringConvertible {
        package let seqno: Seqno
        package let cas: CAS
        /// The stored form; nil if it is not in memory, or of a tombstone without attributes.
        package internal(set) var value: [UInt8]?
        package let isDeleted: Bool
        /// Whether the datatype says that the value begins with extended attributes.
        package internal(set) var hasAttributes = false
        /// The attributes that the source of this version includes.
        package internal(set) var form = AttributeForm.whole

        package init(seqno: Seqno, cas: CAS, value: [UInt8]?, isDeleted: Bool) {
            self.seqno = seqno
            self.cas = cas
            self.value = value
            self.isDeleted = isDeleted
        }

        /// Whether two versions are equal; values are compared only if both are in memory.
        func agrees(with other: Version) -> Bool {
            let isSame =
                seqno == other.seqno && cas == other.cas && isDeleted == other.isDeleted
                && hasAttributes == other.hasAttributes
            guard isSame, let value, let otherValue = other.value else { return isSame }
            return value == otherValue
        }

        package var description: String {
            let text = isDeleted ? "removed" : RegisterOperation.text(body)
            guard hasAttributes else { return "\(seqno.value) \(text)" }
            let names = attributes?.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
            return "\(seqno.value) \(text) with \(names ?? "attributes")"
        }
    }

    package var log: FailoverLog
    /// The seqno up to which the copy is complete.
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

/// Checks that two copies agree on their common history.
///
/// - Up to the last seqno that both logs assign to the same history, each copy has the other copy's
///   newest version of every key, or a newer one.
/// - Within a log, seqnos and fences never decrease with time.
package enum CommonHistory {
    /// The end of the common history of two copies; nil if they have none.
    package static func end(_ one: CopyContent, _ other: CopyContent) -> Seqno? {
        for entry in one.log.entries {
            guard let firstEnd = one.log.end(of: entry.uuid, high: one.covered),
                let secondEnd = other.log.end(of: entry.uuid, high: other.covered)
            else { continue }
            return min(firstEnd, secondEnd, one.covered, other.covered)
        }
        return nil
    }

    /// A sentence on the first difference within the common history; nil if there is none.
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
            // A tombstone may have been purged.
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

    /// A sentence on the first flaw of a log; nil if there is none.
    package static func flaw(_ log: FailoverLog) -> String? {
        for (newer, older) in zip(log.entries, log.entries.dropFirst()) {
            if newer.seqno < older.seqno { return "a history began before its predecessor" }
            if newer.fence < older.fence { return "a history has a lower fence than the previous" }
        }
        return nil
    }
}
