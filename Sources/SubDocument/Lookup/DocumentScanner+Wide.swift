internal import Bytes

/// The loops over many bytes: by words of eight bytes, and inside of strings by vectors of 32.
///
/// A word has a byte equal to another one if subtracting 1 from each byte of their difference borrows
/// from a zero byte (Mycroft 1987). A higher byte may borrow wrongly, but the lowest reported byte is
/// exact; words are little-endian, so that the lowest one is the first.
extension DocumentScanner {
    private static let ones: UInt64 = 0x0101_0101_0101_0101
    private static let highs: UInt64 = 0x8080_8080_8080_8080
    /// Skipped by words before the scanner expects a long string.
    private static let shortBytesMax = 24

    /// The highest bit of the first byte of `word` that equals `byte`; bits above it have no meaning.
    @inline(__always)
    private static func first(_ byte: UInt64, in word: UInt64) -> UInt64 {
        let difference = word ^ (ones &* byte)
        return (difference &- ones) & ~difference & highs
    }

    @inline(__always)
    private func word(at place: Int) -> UInt64 {
        UInt64(
            littleEndian: document.start.loadUnaligned(fromByteOffset: place, as: UInt64.self)
        )
    }

    /// After the opening quote: skips the rest of a string.
    @inline(__always)
    mutating func finishString() -> Bool {
        while seekQuoteOrBackslash() {
            if document[offset] == UInt8(ascii: "\"") {
                offset += 1
                return true
            }
            guard document.count - offset >= 2 else { return false }
            offset += 2
        }
        return false
    }

    /// A string as it is in the document.
    struct RawString {
        let content: ByteView
        let hasEscapes: Bool
    }

    /// Consumes a string with its quotes; nil if there is none.
    @inline(__always)
    mutating func consumeString() -> RawString? {
        guard consume("\"") else { return nil }
        let start = offset
        guard seekQuoteOrBackslash() else { return nil }
        let hasEscapes = document[offset] == UInt8(ascii: "\\")
        guard finishString() else { return nil }
        return RawString(
            content: document.slice(start, offset - 1 - start),
            hasEscapes: hasEscapes
        )
    }

    /// Moves to the next quote or backslash; returns whether there is one.
    @inline(__always)
    private mutating func seekQuoteOrBackslash() -> Bool {
        let wide = offset + DocumentScanner.shortBytesMax
        while document.count - offset >= 8 {
            let word = word(at: offset)
            let special =
                DocumentScanner.first(0x22, in: word) | DocumentScanner.first(0x5c, in: word)
            if special != 0 {
                offset += special.trailingZeroBitCount >> 3
                return true
            }
            offset += 8
            if offset >= wide { return seekQuoteOrBackslashFar() }
        }
        return seekQuoteOrBackslashNear()
    }

    /// The same for the last bytes of the document.
    @inline(never)
    private mutating func seekQuoteOrBackslashNear() -> Bool {
        while offset < document.count {
            if document[offset] == 0x22 || document[offset] == 0x5c { return true }
            offset += 1
        }
        return false
    }

    /// The same for a long string.
    @inline(never)
    private mutating func seekQuoteOrBackslashFar() -> Bool {
        let quotes = SIMD32<UInt8>(repeating: 0x22)
        let backslashes = SIMD32<UInt8>(repeating: 0x5c)
        while document.count - offset >= 32 {
            let bytes = document.start.loadUnaligned(
                fromByteOffset: offset,
                as: SIMD32<UInt8>.self
            )
            let special = (bytes .== quotes) .| (bytes .== backslashes)
            // The mask has all bits of a matching byte set; its four words are tested together.
            let words = unsafeBitCast(special, to: SIMD4<UInt64>.self)
            guard words[0] | words[1] | words[2] | words[3] == 0 else { break }
            offset += 32
        }
        while document.count - offset >= 8 {
            let word = word(at: offset)
            let special =
                DocumentScanner.first(0x22, in: word) | DocumentScanner.first(0x5c, in: word)
            if special != 0 {
                offset += special.trailingZeroBitCount >> 3
                return true
            }
            offset += 8
        }
        return seekQuoteOrBackslashNear()
    }

    /// Moves to the next bracket or quote outside of strings, or to a byte that no document has there,
    /// or to the end.
    @inline(__always)
    mutating func seekBracketOrQuote() {
        // The four brackets differ only in these bits. `Y`, `_`, `y` and DEL become the same byte; they
        // are in no JSON outside of strings.
        let differing: UInt64 = 0x26
        while document.count - offset >= 8 {
            let word = word(at: offset)
            let special =
                DocumentScanner.first(0x22, in: word)
                | DocumentScanner.first(0x7f, in: word | DocumentScanner.ones &* differing)
            if special != 0 {
                offset += special.trailingZeroBitCount >> 3
                return
            }
            offset += 8
        }
        while offset < document.count, document[offset] != 0x22, document[offset] | 0x26 != 0x7f {
            offset += 1
        }
    }
}
