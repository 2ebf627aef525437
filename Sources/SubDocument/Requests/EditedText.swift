internal import Bytes

/// A JSON text that edits replace one after the other, in two buffers in turn.
struct EditedText {
    /// The current text; valid as long as the first text is and no later edit was made.
    private(set) var view: ByteView
    private var current: ByteWriter?
    private var spare: ByteWriter?

    init(_ view: ByteView) {
        self.view = view
    }

    /// A text in a buffer of its own.
    init(copying parts: [ByteView]) {
        let writer = ByteWriter(capacity: parts.reduce(16) { $0 + $1.count })
        for part in parts { writer.append(part) }
        current = writer
        view = writer.view
    }

    init(_ text: StaticString) {
        view = ByteView(start: text.utf8Start, count: text.utf8CodeUnitCount)
    }

    init(_ bytes: [UInt8]) {
        self.init(copying: [])
        current?.append(bytes)
        view = current?.view ?? .empty
    }

    mutating func apply(
        _ operation: EditOperation,
        at path: DocumentPath,
        value: ByteView,
        makesParents: Bool
    ) -> Result<EditResult, PathFailure> {
        let target = spare ?? ByteWriter(capacity: view.count + value.count + 64)
        target.removeAll()
        let result = PathEdit.apply(
            operation,
            at: path,
            value: value,
            makesParents: makesParents,
            to: view,
            into: target
        )
        spare = target
        guard case .success = result else { return result }
        (current, spare) = (target, current)
        view = target.view
        return result
    }
}
