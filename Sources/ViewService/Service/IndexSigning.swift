internal import Bytes
internal import Credentials
package import Indexing
internal import JSON

/// Names of indexes and of stored reductions, by their content.
///
/// Views with equal map functions share an index, and equal reduce functions a slot, also over the
/// design documents of a bucket. A change of what this release makes of a function is a new name,
/// so that an index of an earlier release is built anew.
package enum IndexSigning {
    /// The format of trees and rows; incremented when an index has to be built anew.
    private static let format: UInt32 = 1
    /// The version of the script environment and `meta`; incremented when a function may emit other rows.
    private static let harness: UInt32 = 1

    private enum Slot: UInt8 {
        case count = 1
        case numeric = 2
        case custom = 3
    }

    /// The name of the index that has the view's rows.
    package static func signature(of definition: ViewDefinition) -> IndexSignature {
        let content = ByteWriter()
        append("divan index", to: content)
        content.append(bigEndian: format)
        content.append(bigEndian: harness)
        append(Collation.version, to: content)
        append(definition.map, to: content)
        content.append(UInt8(definition.indexesTombstones ? 1 : 0))
        return sign(content)
    }

    /// The name of the view's stored reductions; nil if it has no reduce function.
    ///
    /// `_sum` and `_stats` have the same, because their stored results are.
    package static func slotSignature(of definition: ViewDefinition) -> IndexSignature? {
        guard let reduce = definition.reduce else { return nil }
        let content = ByteWriter()
        append("divan slot", to: content)
        content.append(bigEndian: format)
        switch reduce {
        case .count: content.append(Slot.count.rawValue)
        case .sum, .stats: content.append(Slot.numeric.rawValue)
        case .custom(let source):
            content.append(Slot.custom.rawValue)
            content.append(bigEndian: harness)
            append(source, to: content)
        }
        return sign(content)
    }

    /// Appends a text behind its length, so that no two lists of texts have the same bytes.
    private static func append(_ text: String, to content: ByteWriter) {
        let bytes = Array(text.utf8)
        content.append(bigEndian: UInt32(bytes.count))
        content.append(bytes)
    }

    private static func sign(_ content: ByteWriter) -> IndexSignature {
        let hash = Digest.sha256(content.view.bytes)
        guard let signature = IndexSignature(Array(hash.prefix(IndexSignature.byteCount))) else {
            preconditionFailure("SHA-256 has more bytes than a signature")
        }
        return signature
    }
}
