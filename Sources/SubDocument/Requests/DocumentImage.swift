package import Bytes
package import Vocabulary

/// The version of a document that a sub-document command reads or changes.
///
/// A tombstone is one too, if the command accesses deleted documents. Borrows the stored value.
package struct DocumentImage {
    /// The CAS is `.locked` for a client that may not see it.
    package let meta: DocumentMeta
    /// The stored form: attributes, if the datatype says so, then the body.
    package let value: ByteView
    package let place: Place

    /// The vBucket UUID and the clock, which virtual attributes show besides the version.
    package struct Place: Sendable {
        package let uuid: VBucketUUID
        /// The clock that CAS values come from, in seconds since 1970.
        package let seconds: UInt64
        /// Whether the clock only counts, since the time of day is behind it.
        package let isLogical: Bool

        package init(uuid: VBucketUUID, seconds: UInt64, isLogical: Bool = false) {
            self.uuid = uuid
            self.seconds = seconds
            self.isLogical = isLogical
        }
    }

    package init(meta: DocumentMeta, value: ByteView, place: Place) {
        self.meta = meta
        self.value = value
        self.place = place
    }

    /// The image that macros show of a document that does not exist: zeros.
    static func missing(_ place: Place) -> DocumentImage {
        DocumentImage(meta: DocumentMeta(revision: 0), value: .empty, place: place)
    }

    /// Nil if there are none.
    var attributes: XattrBlob? {
        meta.datatype.contains(.xattr) ? XattrBlob(stored: value) : nil
    }

    var body: ByteView { XattrBlob.body(of: value, meta.datatype) }

    var isJSON: Bool { meta.datatype.contains(.json) }
}
