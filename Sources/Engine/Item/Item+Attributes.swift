public import Bytes
package import Vocabulary

/// Extended attributes of a version: they lie in front of the body (`XattrBlob`).
extension Item {
    /// Whether the value has extended attributes, in memory or ejected.
    @inlinable @inline(__always)
    package var hasAttributes: Bool { state.contains(.hasAttributes) }

    /// The attributes; nil if there are none, or if the value is ejected.
    package var attributes: XattrBlob? {
        hasAttributes && !isEjected ? XattrBlob(stored: value) : nil
    }

    /// The value without attributes; empty if it is ejected.
    @inlinable @inline(__always)
    package var body: ByteView { hasAttributes ? bodyBehindAttributes : value }

    @inline(never) @usableFromInline
    var bodyBehindAttributes: ByteView { attributes?.body ?? .empty }
}
