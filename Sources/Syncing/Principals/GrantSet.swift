package import Bytes

package typealias GrantName = Coded & Comparable & Hashable & Sendable

/// Names that a principal has, each with the sequence at which it was granted.
///
/// The sequence decides which rows a feed sends late: what is older than the grant. Sequence 1, or 0,
/// means from the beginning.
///
/// - Names are in order and occur once.
package struct GrantSet<Name: GrantName>: Hashable, Sendable {
    package struct Grant: Hashable, Sendable {
        package let name: Name
        package let sequence: UInt64

        package init(_ name: Name, _ sequence: UInt64) {
            self.name = name
            self.sequence = sequence
        }
    }

    package private(set) var grants: [Grant] = []

    package init() {}

    package init(_ names: some Collection<Name>, at sequence: UInt64) {
        grants = Set(names).sorted().map { Grant($0, sequence) }
    }

    package var isEmpty: Bool { grants.isEmpty }
    // A key path of a generic type is made anew for each call.
    package var names: [Name] { grants.map { $0.name } }

    /// The sequence at which `name` was granted; nil if it is not.
    package subscript(name: Name) -> UInt64? {
        let index = lowerBound(of: name)
        guard index < grants.count, grants[index].name == name else { return nil }
        return grants[index].sequence
    }

    /// Adds `name`; of two grants of a name the earlier one counts.
    package mutating func insert(_ name: Name, at sequence: UInt64) {
        let index = lowerBound(of: name)
        if index < grants.count, grants[index].name == name {
            grants[index] = Grant(name, min(sequence, grants[index].sequence))
        } else {
            grants.insert(Grant(name, sequence), at: index)
        }
    }

    /// Adds the grants of `other`, none of them from before `sequence` on.
    package mutating func formUnion(_ other: GrantSet, notBefore sequence: UInt64 = 0) {
        var merged: [Grant] = []
        merged.reserveCapacity(grants.count + other.grants.count)
        var index = 0
        for added in other.grants {
            while index < grants.count, grants[index].name < added.name {
                merged.append(grants[index])
                index += 1
            }
            var start = max(added.sequence, sequence)
            if index < grants.count, grants[index].name == added.name {
                start = min(start, grants[index].sequence)
                index += 1
            }
            merged.append(Grant(added.name, start))
        }
        grants = merged + grants[index...]
    }

    /// Replaces the names; a name that stays keeps its sequence, a new one gets `sequence`.
    package mutating func replace(with names: Set<Name>, at sequence: UInt64) {
        let kept = self
        grants = names.sorted().map { Grant($0, kept[$0] ?? sequence) }
    }

    /// The grants whose names `other` lacks.
    package func grants(missingIn other: GrantSet) -> [Grant] {
        grants.filter { other[$0.name] == nil }
    }

    private func lowerBound(of name: Name) -> Int {
        var low = 0
        var high = grants.count
        while low < high {
            let middle = (low + high) / 2
            if grants[middle].name < name { low = middle + 1 } else { high = middle }
        }
        return low
    }
}

extension GrantSet.Grant: Coded {
    package func write(to writer: inout FieldWriter) {
        name.write(to: &writer)
        sequence.write(to: &writer)
    }

    /// - Throws: `CodingFailure` if the bytes end, or the name is invalid.
    package init(from reader: inout FieldReader) throws(CodingFailure) {
        name = try Name(from: &reader)
        sequence = try UInt64(from: &reader)
    }
}

extension GrantSet: Coded {
    package func write(to writer: inout FieldWriter) { grants.write(to: &writer) }

    /// - Throws: `CodingFailure` if the bytes end, or the names are not in order.
    package init(from reader: inout FieldReader) throws(CodingFailure) {
        grants = try [Grant](from: &reader)
        guard zip(grants, grants.dropFirst()).allSatisfy({ $0.name < $1.name }) else {
            throw reader.failure(.invalid)
        }
    }
}

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
