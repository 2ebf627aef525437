package import Bytes
internal import CICU

/// Whether a key became a sort key.
package enum SortKeyOutcome: Equatable, Sendable {
    case appended
    /// The text is not one JSON value. Nothing was appended.
    case notJSON
    /// The text or its sort key exceeds its limit. Nothing was appended.
    case tooLong
}

/// The collator of the root locale could not be opened; `code` is ICU's.
package struct CollationError: Error, CustomStringConvertible {
    package let code: Int32

    package var description: String {
        "ICU cannot open its root collation (code \(code)). Check that libicu and its data are"
            + " installed and that memory is available."
    }
}

/// Makes sort keys: bytes whose order (memcmp) is the order of view keys.
///
///     null 10 | false 14 | true 18 | number 20 and 8 bytes | string 30 S
///     array 40 elements... 00 | object 50 (30 S value)... 00
///     S: ICU's sort key, which ends in its only 00; the string's own bytes, escaped; 00
///
/// A number is a double in big endian with the sign bit flipped, or all bits if it is negative.
/// A string's own bytes are its UTF-8, in which a lone surrogate has three bytes. They order
/// strings that ICU calls equal, and make the key reversible, so no index stores a key's text.
///
/// - No sort key is a proper prefix of another, so rows can continue it (`RowKey`).
/// - The first byte is a tag far below FF.
/// - Keys of different versions of ICU must not be compared: an index records `version`.
/// - One thread at a time may use a collation.
package final class Collation {
    /// The bytes that a key's text may have, blanks included: CouchDB's limit.
    package static let textBytesMax = 4_095
    /// The bytes that a sort key may have: ICU expands some characters twelvefold.
    package static let keyBytesMax = 16 << 10
    /// The bytes that the text of a bound may have, which no row need have as its key.
    package static let boundTextBytesMax = 64 << 10
    /// The bytes of a bound's sort key: what is behind them does not change its place among rows.
    package static let boundKeyBytesMax = keyBytesMax + 1
    /// The open brackets that a text of `textBytesMax` bytes can close again; a sort key with more
    /// is malformed.
    package static let depthMax = textBytesMax / 2

    let collator: OpaquePointer
    /// The bytes that a text may have.
    let textBytesMax: Int
    /// The UTF-16 units of the current string, each of which takes at least one byte of text.
    let units: UnsafeMutablePointer<UInt16>

    /// Opens ICU's collator of the root locale with its default strength and options.
    ///
    /// - Parameter textBytesMax: The bytes that a text may have, each of which needs two bytes of memory;
    ///   more than `Collation.textBytesMax` is for bounds.
    /// - Throws: `CollationError` if ICU has no data for it or no memory.
    package init(textBytesMax: Int = Collation.textBytesMax) throws(CollationError) {
        var code: Int32 = 0
        guard let collator = divan_collator_open(&code) else { throw CollationError(code: code) }
        self.collator = collator
        self.textBytesMax = textBytesMax
        units = .allocate(capacity: textBytesMax)
    }

    deinit {
        divan_collator_close(collator)
        units.deallocate()
    }

    /// The versions of ICU's collator and of its Unicode collation data, such as "153.120/15.0";
    /// "none" if no collator can be opened.
    package static let version: String = {
        guard let collation = try? Collation() else { return "none" }
        var numbers: [UInt8] = [0, 0, 0, 0]
        divan_collator_version(collation.collator, &numbers)
        return "\(numbers[0]).\(numbers[1])/\(numbers[2]).\(numbers[3])"
    }()

    /// Appends the sort key of one JSON text, which blanks may surround.
    package func appendSortKey(
        ofJSON text: ByteView,
        to output: ByteWriter
    ) -> SortKeyOutcome {
        guard text.count <= Collation.textBytesMax else { return .tooLong }
        let first = output.count
        let outcome = appendWholeKey(ofJSON: text, to: output)
        // Checked at the end: a text within its limit fills at most four times this limit.
        let isTooLong = outcome == .appended && output.count - first > Collation.keyBytesMax
        guard isTooLong else { return outcome }
        output.truncate(to: first)
        return .tooLong
    }

    /// Appends the sort key of a bound's JSON text, which blanks may surround: the first `boundKeyBytesMax`
    /// bytes of it.
    ///
    /// The text may be longer than that of any row's key, and so may its sort key. The rest of a longer sort
    /// key is not needed. No sort key is a proper prefix of another, so a row's key, of at most `keyBytesMax`
    /// bytes, differs from the bound's within the bytes that are left.
    ///
    /// - Returns: `tooLong` only if the text has more bytes than the collation accepts.
    package func appendBound(ofJSON text: ByteView, to output: ByteWriter) -> SortKeyOutcome {
        guard text.count <= textBytesMax else { return .tooLong }
        let first = output.count
        let outcome = appendWholeKey(ofJSON: text, to: output)
        if output.count - first > Collation.boundKeyBytesMax {
            output.truncate(to: first + Collation.boundKeyBytesMax)
        }
        return outcome
    }

    private func appendWholeKey(ofJSON text: ByteView, to output: ByteWriter) -> SortKeyOutcome {
        let first = output.count
        var encoder = SortKeyEncoder(text: text)
        if encoder.encode(by: self, to: output) { return .appended }
        output.truncate(to: first)
        return .notJSON
    }
}
