internal import Bytes
internal import Vocabulary

extension ByteWriter {
    /// Writes the numbers of the version that is about to be stored to their places.
    func expand(_ macros: [MacroPatch], _ version: (cas: CAS, seqno: Seqno)) {
        for macro in macros {
            let isPlaceholder = view.slice(macro.offset, 18).equals(
                ByteView(MacroPatch.placeholder)
            )
            precondition(isPlaceholder, "a macro's place has 18 characters")
            let number =
                switch macro.kind {
                case .cas: version.cas.value.byteSwapped
                case .seqno: version.seqno.value
                }
            replace(at: macro.offset + 2, bigEndian: Self.digits(UInt32(number >> 32)))
            replace(
                at: macro.offset + 10,
                bigEndian: Self.digits(UInt32(truncatingIfNeeded: number))
            )
        }
    }

    /// Eight hexadecimal digits as the bytes of their characters.
    private static func digits(_ number: UInt32) -> UInt64 {
        (0..<8).reduce(0) { text, place in
            let digit = UInt64(number >> UInt32(28 - 4 * place)) & 15
            return text << 8 | digit + (digit < 10 ? 0x30 : 0x57)
        }
    }
}

extension ByteView {
    fileprivate init(_ text: StaticString) {
        self.init(start: text.utf8Start, count: text.utf8CodeUnitCount)
    }
}
