/// The operation of an edit at its path.
package enum EditOperation: Sendable, CaseIterable {
    /// Adds a member to an object; fails if its key exists.
    case dictAdd
    /// Adds a member to an object, or replaces its value.
    case dictUpsert
    case delete
    /// Replaces the value of a member or an element that exists.
    case replace
    /// Appends one or more values, separated by commas, to an array.
    case pushLast
    /// Puts one or more values, separated by commas, in front of an array's elements.
    case pushFirst
    /// Inserts one or more values, separated by commas, so that the first one has the path's index.
    case insert
    /// Appends a scalar to an array of scalars; fails if the array has it.
    case addUnique
    /// Adds the signed integer of 64 bits that the value's text is; creates a missing member from 0.
    case counter

    /// Whether the path may be the root.
    var allowsRoot: Bool { isPush }

    /// Whether the path names the array that gets the values.
    var isPush: Bool {
        switch self {
        case .pushLast, .pushFirst, .addUnique: true
        case .dictAdd, .dictUpsert, .delete, .replace, .insert, .counter: false
        }
    }
}

/// The result of an edit.
package struct EditResult: Equatable, Sendable {
    /// The counter's new number; nil for other operations.
    package let number: Int64?
    /// Where the written value is, counted from the first byte of the new document; nil for `delete`.
    ///
    /// Blanks around the given value were not written.
    package let written: Range<Int>?
}
