/// The versions of which memory does not have the value.
struct EjectedCounts {
    /// Live documents of which the value, or the whole document, is on disk only.
    var documents = 0
    /// Tombstones in the table whose value is on disk only; stubs are not among them.
    var tombstones = 0

    /// Subtracts a version in the table whose value is ejected.
    mutating func forget(_ state: Item.State) {
        if state.contains(.deleted) { tombstones -= 1 } else { documents -= 1 }
    }
}
