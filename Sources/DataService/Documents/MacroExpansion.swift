internal import Bytes
internal import Vocabulary

extension MacroPatch {
    /// Writes the numbers of the version that is about to be stored to their places in `output`.
    static func expand(
        _ macros: [MacroPatch],
        _ version: (cas: CAS, seqno: Seqno),
        in output: ByteWriter
    ) {
        for macro in macros {
            let place = output.view.slice(macro.offset, 18)
            let isPlaceholder = place.equals(ByteView(MacroPatch.placeholder))
            precondition(isPlaceholder, "a macro's place has 18 characters")
            let number =
                switch macro.kind {
                case .cas: version.cas.value.byteSwapped
                case .seqno: version.seqno.value
                }
            let (high, low) = (UInt32(number >> 32), UInt32(truncatingIfNeeded: number))
            output.replace(at: macro.offset + 2, bigEndian: digits(high))
            output.replace(at: macro.offset + 10, bigEndian: digits(low))
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
