package import Bytes
package import Vocabulary

/// The extended attributes of a version that a source includes.
package enum AttributeForm: Hashable, Sendable {
    /// The stored value: copies, disks, streams between nodes, and clients of feeds that asked for
    /// all attributes of deletions.
    case whole
    /// Deletions have the system's attributes alone: clients of feeds that agreed to attributes.
    case systemOfDeletions
    /// No attributes: clients of feeds that did not agree to them.
    case bodies
}

extension CopyContent.Version {
    /// A version as a source has it.
    ///
    /// - Parameters:
    ///   - meta: What is not in the value.
    ///   - value: With attributes, if `meta` says so; nil if it is not in memory.
    ///   - form: What the source shows.
    package init(_ meta: DocumentMeta, _ value: ByteView?, form: AttributeForm = .whole) {
        // A tombstone without attributes has no value.
        let isEmpty = meta.isDeleted && !meta.datatype.contains(.xattr)
        self.init(
            seqno: meta.seqno,
            cas: meta.cas,
            value: isEmpty ? nil : value?.bytes,
            isDeleted: meta.isDeleted
        )
        hasAttributes = meta.datatype.contains(.xattr)
        self.form = form
    }

    /// The attributes in their order; empty if there are none, nil if the value is not in memory or
    /// is no valid form.
    package var attributes: [(key: String, value: String)]? {
        guard hasAttributes else { return [] }
        return value?.withUnsafeBytes { buffer in
            guard let blob = XattrBlob(ByteView(buffer)) else { return nil }
            return blob.map { ($0.key.text, $0.value.text) }
        }
    }

    /// The value without attributes; nil if it is not in memory or is no valid form.
    package var body: [UInt8]? {
        guard hasAttributes else { return value }
        return value?.withUnsafeBytes { buffer in
            XattrBlob(ByteView(buffer)).map { $0.body.isEmpty ? [] : $0.body.bytes }
        }
    }

    /// This stored version as a source of a form shows it.
    ///
    /// Nil if that depends on a value that is not in memory.
    package func shown(as form: AttributeForm) -> Self? {
        var shown = self
        shown.form = form
        guard hasAttributes else { return shown }
        switch form {
        case .whole: return shown
        case .systemOfDeletions:
            guard isDeleted else { return shown }
            guard let value else { return nil }
            let system = CopyContent.Version.systemAttributes(of: value)
            shown.value = system
            shown.hasAttributes = system != nil
            return shown
        case .bodies:
            shown.value = isDeleted ? nil : body
            shown.hasAttributes = false
            return shown
        }
    }

    private static func systemAttributes(of value: [UInt8]) -> [UInt8]? {
        value.withUnsafeBytes { buffer in
            guard let blob = XattrBlob(ByteView(buffer)) else { return nil }
            let writer = ByteWriter()
            return XattrWriter.appendSystemPairs(of: blob, to: writer) ? writer.bytes : nil
        }
    }

    /// Whether a source shows a stored version as it has to; what is not in memory is not compared.
    package func shows(_ stored: Self) -> Bool {
        guard let shown = stored.shown(as: form) else {
            return seqno == stored.seqno && cas == stored.cas && isDeleted == stored.isDeleted
        }
        return agrees(with: shown)
    }
}
