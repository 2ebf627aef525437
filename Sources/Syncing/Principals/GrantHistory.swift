package import Bytes

/// From `start` on, and before `end`, a principal had a channel or a role.
package struct GrantPeriod: Hashable, Sendable, CodedFields {
    package private(set) var start: UInt64 = 0
    package private(set) var end: UInt64 = 0

    package init() {}

    package init(start: UInt64, end: UInt64) {
        self.start = start
        self.end = end
    }

    /// - Throws: `CodingFailure` if the bytes end, or the period ends before it starts.
    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&start, "start")
        try coder.field(&end, "end")
        let isOrdered = start <= end
        try coder.require(isOrdered, "end")
    }
}

/// The periods in which a principal had names that it may have lost.
///
/// A feed decides from it which documents a device may have of a lost channel. It is stored with the
/// principal, so that every index is a pure function of documents and principals.
///
/// - Names are in order; the periods of a name are in order of time and at most `periodsMax`.
package struct GrantHistory<Name: GrantName>: Hashable, Sendable {
    package struct Entry: Hashable, Sendable {
        package let name: Name
        package internal(set) var periods: [GrantPeriod]
    }

    /// The oldest two periods are joined if there are more: a device then may be told to drop a
    /// document that it never had.
    package static var periodsMax: Int { 10 }

    package private(set) var entries: [Entry] = []

    package init() {}

    package var isEmpty: Bool { entries.isEmpty }

    package func periods(of name: Name) -> [GrantPeriod] {
        entries.first { $0.name == name }?.periods ?? []
    }

    /// Records that `grants` ended at `end`; a period that is recorded already is not added again.
    package mutating func record(_ grants: [GrantSet<Name>.Grant], end: UInt64) {
        for grant in grants where grant.sequence < end {
            let period = GrantPeriod(start: grant.sequence, end: end)
            guard let index = entries.firstIndex(where: { $0.name >= grant.name }) else {
                entries.append(Entry(name: grant.name, periods: [period]))
                continue
            }
            if entries[index].name != grant.name {
                entries.insert(Entry(name: grant.name, periods: [period]), at: index)
            } else if entries[index].periods.last != period {
                entries[index].add(period, max: Self.periodsMax)
            }
        }
    }
}

extension GrantHistory.Entry: Coded {
    fileprivate mutating func add(_ period: GrantPeriod, max: Int) {
        periods.append(period)
        guard periods.count > max else { return }
        periods[1] = GrantPeriod(start: periods[0].start, end: periods[1].end)
        periods.removeFirst()
    }

    package func write(to writer: inout FieldWriter) {
        name.write(to: &writer)
        periods.write(to: &writer)
    }

    /// - Throws: `CodingFailure` if the bytes end, or the name or a period is invalid.
    package init(from reader: inout FieldReader) throws(CodingFailure) {
        name = try Name(from: &reader)
        periods = try [GrantPeriod](from: &reader)
    }
}

extension GrantHistory: Coded {
    package func write(to writer: inout FieldWriter) { entries.write(to: &writer) }

    /// - Throws: `CodingFailure` if the bytes end, or the names are not in order.
    package init(from reader: inout FieldReader) throws(CodingFailure) {
        entries = try [Entry](from: &reader)
        guard zip(entries, entries.dropFirst()).allSatisfy({ $0.name < $1.name }) else {
            throw reader.failure(.invalid)
        }
    }
}
