/// The possible values of one document according to the replies that its client received; checks
/// every read.
///
/// A document has one client, which sends one request at a time, so its writes are ordered. Each
/// acknowledged write is an entry. An unclean restart may lose entries from the end, but none that
/// was reported persisted. A write without an answer may have taken effect, may do so later, or
/// never.
struct DocumentModel {
    private struct Entry {
        /// Nil if the document does not exist.
        let value: [UInt8]?
        /// Nil if the write was not acknowledged.
        let seqno: UInt64?
        /// The last start of the node in which the entry is known to have existed.
        var start: Int
    }

    /// The first is the newest entry that must not be lost; the later ones may be lost.
    private var entries = [Entry(value: nil, seqno: nil, start: 0)]
    /// Values of writes without an answer.
    private var unknown: [[UInt8]?] = []
    /// Whether the node restarted since the last entry was read: any entry may be current.
    private var isUncertain = false

    mutating func wrote(_ value: [UInt8]?, seqno: UInt64, start: Int) {
        entries.append(Entry(value: value, seqno: seqno, start: start))
        isUncertain = false
    }

    mutating func mayHaveWritten(_ value: [UInt8]?) { unknown.append(value) }

    /// The node's start number `start` reported everything through `seqno` as persisted.
    mutating func persisted(through seqno: UInt64, start: Int) {
        guard
            let last = entries.lastIndex(where: { entry in
                entry.start == start && (entry.seqno ?? .max) <= seqno
            })
        else { return }
        entries.removeFirst(last)
    }

    /// The node stopped cleanly: no acknowledged write may be lost.
    mutating func stopped(start: Int) {
        if let last = entries.lastIndex(where: { $0.start == start }) { entries.removeFirst(last) }
    }

    mutating func restarted() { isUncertain = true }

    /// Checks that a read may return `value`; returns the violation, or nil.
    mutating func read(_ value: [UInt8]?, start: Int) -> String? {
        let possible = isUncertain ? entries[...] : entries.suffix(1)
        if let found = possible.lastIndex(where: { $0.value == value }) {
            if isUncertain {
                entries.removeSubrange((found + 1)...)
                entries[found].start = start
                isUncertain = false
            }
            return nil
        }
        if let found = unknown.lastIndex(where: { $0 == value }) {
            entries.append(Entry(value: unknown[found], seqno: nil, start: start))
            isUncertain = false
            return nil
        }
        let old = entries.contains { $0.value == value }
        return "read \(DocumentModel.text(value)), "
            + (old ? "which was overwritten; " : "which is not a possible value; ")
            + "expected " + possible.map { DocumentModel.text($0.value) }.joined(separator: " or ")
    }

    static func text(_ value: [UInt8]?) -> String {
        value.map { String(decoding: $0.prefix(24), as: UTF8.self) } ?? "nothing"
    }
}
