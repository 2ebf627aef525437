package import Bytes

/// The name of an index by its content: 128 bits of a hash over everything that determines its rows.
package struct IndexSignature: Hashable, Sendable, CustomStringConvertible {
    package static let byteCount = 16

    package let bytes: [UInt8]

    /// Nil unless there are exactly 16 bytes.
    package init?(_ bytes: [UInt8]) {
        guard bytes.count == IndexSignature.byteCount else { return nil }
        self.bytes = bytes
    }

    /// The signature of no index: a blank for decoding.
    init() { bytes = [UInt8](repeating: 0, count: IndexSignature.byteCount) }

    // An array hashes each of its bytes by itself.
    package func hash(into hasher: inout Hasher) {
        bytes.withUnsafeBytes { hasher.combine(bytes: $0) }
    }

    /// 32 hexadecimal digits.
    package var description: String {
        bytes.map { byte in
            let digits = String(byte, radix: 16)
            return byte < 16 ? "0" + digits : digits
        }.joined()
    }
}

/// The bytes, preceded by their count.
extension IndexSignature: Coded {
    package func write(to writer: inout FieldWriter) { bytes.write(to: &writer) }

    package init(from reader: inout FieldReader) throws(CodingFailure) {
        guard let signature = IndexSignature(try reader.payload()) else {
            throw reader.failure(.invalid)
        }
        self = signature
    }
}

/// The indexes that can answer a query, of which all responders use the same one.
package struct IndexChoice: Equatable, Sendable {
    /// The index of the view's current definition.
    package var current: IndexSignature
    /// The index that answers if the current one is not complete on all nodes; nil if none does.
    ///
    /// If it is there, a responder whose current index is not complete sends `notReady` at once.
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

    /// Whether the responder reads the current index only if it is complete.
    package var requiresReady: Bool { previous != nil && !usesPrevious }

    /// The index that a responder uses.
    package var wanted: IndexSignature { usesPrevious ? previous ?? current : current }
}
