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
