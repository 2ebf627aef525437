/// What one document may be, by all that its client was told: the judge of every read.
///
/// A document has one client, which asks one thing at a time, so its writes have an order. Each
/// write that was acknowledged is an entry; a restart that was not clean may lose entries from the
/// end, but none that was reported persisted. A write without an answer may have happened, may
/// happen later, or never.
struct DocumentModel {
    private struct Entry {
        /// Nil: the document is not there.
        let value: [UInt8]?
        /// Nil where nobody was told.
        let seqno: UInt64?
        /// The start of the node in which the entry is known to have been there.
        var start: Int
    }

    /// The first is the newest one that must not be lost; those behind it may be.
    private var entries = [Entry(value: nil, seqno: nil, start: 0)]
    private var unknown: [[UInt8]?] = []
    /// The node was started anew since the last entry was seen: any of them may be it.
    private var isUncertain = false

    mutating func wrote(_ value: [UInt8]?, seqno: UInt64, start: Int) {
        entries.append(Entry(value: value, seqno: seqno, start: start))
        isUncertain = false
    }

    mutating func mayHaveWritten(_ value: [UInt8]?) { unknown.append(value) }

    /// Everything through `seqno` was reported persisted by the node's start number `start`.
    mutating func persisted(through seqno: UInt64, start: Int) {
        guard
            let last = entries.lastIndex(where: { entry in
                entry.start == start && (entry.seqno ?? .max) <= seqno
            })
        else { return }
        entries.removeFirst(last)
    }

    /// The node stopped cleanly: nothing that it acknowledged is lost.
    mutating func stopped(start: Int) {
        if let last = entries.lastIndex(where: { $0.start == start }) { entries.removeFirst(last) }
    }

    mutating func restarted() { isUncertain = true }

    /// A read found `value`; why that cannot be, if so.
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
            + (old ? "which was overwritten; " : "which is none of those it may be; ")
            + "expected " + possible.map { DocumentModel.text($0.value) }.joined(separator: " or ")
    }

    static func text(_ value: [UInt8]?) -> String {
        value.map { String(decoding: $0.prefix(24), as: UTF8.self) } ?? "nothing"
    }
}
