/// The effect of a write on the extended attributes of the document that it replaces.
package enum AttributePolicy: Hashable, Sendable {
    /// The written value is a body: the attributes of a live document are put in front of it.
    case keep
    /// The written value is the whole stored form; its datatype says whether it has attributes.
    case replace
}

/// A place of a written value that gets the number of the version itself, once it is known.
///
/// At `offset` are the 18 characters of `placeholder`. The store replaces the digits under the
/// vBucket's lock, before the version is visible.
package struct MacroPatch: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// The CAS; its digits are in little-endian byte order, as gateways expect.
        case cas
        /// The seqno, in big-endian byte order; of a durable write, the prepare's.
        case seqno
    }

    package static let placeholder: StaticString = "0x0000000000000000"

    package let offset: Int
    package let kind: Kind

    package init(offset: Int, kind: Kind) {
        self.offset = offset
        self.kind = kind
    }
}
