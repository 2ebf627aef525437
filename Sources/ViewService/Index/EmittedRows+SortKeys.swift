internal import Bytes
internal import JSON
internal import ScriptProcesses

extension EmittedRows {
    /// Calls `body` with the encoded key and the value of each row of an item.
    ///
    /// - Returns: Whether every key could be encoded; the others have a row too many.
    func encode(
        _ item: Int,
        _ collation: Collation,
        into sortKey: ByteWriter,
        body: (_ sortKey: ByteView, _ value: ByteView) -> Void
    ) -> Bool {
        var isWhole = true
        forEach(item: item) { key, value in
            sortKey.removeAll()
            guard collation.appendSortKey(ofJSON: key, to: sortKey) == .appended else {
                isWhole = false
                return
            }
            body(sortKey.view, value)
        }
        return isWhole
    }
}
