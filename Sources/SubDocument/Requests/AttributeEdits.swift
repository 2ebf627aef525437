internal import Bytes
internal import Vocabulary

/// The attributes of a document while the paths of a request change them.
///
/// A changed attribute is a document of its own, `{"key":value}`, to which its paths apply unchanged:
/// so an attribute is created, replaced and deleted like a member.
struct AttributeEdits {
    private struct Entry {
        let key: ByteView
        /// The value as it is stored; unused once there is a document.
        let stored: ByteView
        var document: EditedText?

        /// Nil if the attribute was deleted.
        var value: ByteView? {
            guard let text = document?.view else { return stored }
            // Between `{"key":` and `}`.
            let start = key.count + 4
            return text.count > start + 1 ? text.slice(start, text.count - start - 1) : nil
        }
    }

    private var entries: [Entry] = []

    /// - Parameter attributes: Those of the version before; valid as long as the edits are.
    init(_ attributes: XattrBlob?) {
        guard let attributes else { return }
        for (key, value) in attributes {
            entries.append(Entry(key: key, stored: value))
        }
    }

    /// The current value of an attribute; nil if there is none.
    func value(of key: ByteView) -> ByteView? {
        entries.first { $0.key.equals(key) }?.value
    }

    /// Applies an edit at an attribute's whole path.
    mutating func apply(
        _ operation: EditOperation,
        at path: DocumentPath,
        value: ByteView,
        makesParents: Bool
    ) -> Result<EditResult, PathFailure> {
        let key = path.attributeKey
        let place = entries.firstIndex { $0.key.equals(key) }
        var entry = place.map { entries[$0] } ?? Entry(key: key, stored: .empty)
        var document =
            entry.document ?? (place == nil ? EditedText("{}") : AttributeEdits.wrap(entry))
        let result = document.apply(
            operation,
            at: path,
            value: value,
            makesParents: makesParents
        )
        guard case .success = result else { return result }
        entry.document = document
        if let place { entries[place] = entry } else { entries.append(entry) }
        return result
    }

    private static func wrap(_ entry: Entry) -> EditedText {
        func text(_ string: StaticString) -> ByteView {
            ByteView(start: string.utf8Start, count: string.utf8CodeUnitCount)
        }
        return EditedText(copying: [text("{\""), entry.key, text("\":"), entry.stored, text("}")])
    }

    /// Drops all but the system attributes, as the deletion of a document does.
    mutating func dropUserAttributes() {
        entries.removeAll { !XattrBlob.isSystemKey($0.key) }
    }

    /// Appends the attributes in the stored form.
    ///
    /// - Returns: Whether there are any; otherwise nothing was appended.
    func append(to writer: ByteWriter) -> Bool {
        let attributes = XattrWriter.begin(writer)
        for entry in entries {
            if let value = entry.value { attributes.append(key: entry.key, value: value) }
        }
        return attributes.end()
    }
}
