/// The name of an index by its content: 128 bits of a hash over everything that determines its rows.
package struct IndexSignature: Hashable, Sendable, CustomStringConvertible {
    package static let byteCount = 16

    package let bytes: [UInt8]

    /// Nil unless there are exactly 16 bytes.
    package init?(_ bytes: [UInt8]) {
        guard bytes.count == IndexSignature.byteCount else { return nil }
        self.bytes = bytes
    }

    /// 32 hexadecimal digits.
    package var description: String {
        bytes.map { byte in
            let digits = String(byte, radix: 16)
            return byte < 16 ? "0" + digits : digits
        }.joined()
    }
}

/// The indexes that can answer a query, of which all responders use the same one.
package struct IndexChoice: Equatable, Sendable {
    /// The index of the view's current definition.
    package var current: IndexSignature
    /// The index of its definition before; nil if there is none, or only the current one will do.
    package var previous: IndexSignature?
    /// Whether the previous index answers, because the current one is not built everywhere.
    package var usesPrevious: Bool

    package init(
        current: IndexSignature,
        previous: IndexSignature? = nil,
        usesPrevious: Bool = false
    ) {
        self.current = current
        self.previous = previous
        self.usesPrevious = usesPrevious
    }

    /// The index that a responder uses.
    package var wanted: IndexSignature { usesPrevious ? previous ?? current : current }
}
