/// The first byte of each value in a sort key, in the contract's order of types.
///
/// - `end` closes an array or object and is below every tag, so the shorter of two sorts first.
/// - The gaps leave room for types that JSON does not have today.
enum SortKeyTag {
    static let end: UInt8 = 0x00
    static let null: UInt8 = 0x10
    static let no: UInt8 = 0x14
    static let yes: UInt8 = 0x18
    static let number: UInt8 = 0x20
    static let string: UInt8 = 0x30
    static let array: UInt8 = 0x40
    static let object: UInt8 = 0x50
}

/// A number as eight bytes whose order, as an unsigned integer, is the order of the numbers.
enum SortKeyNumber {
    private static let sign: UInt64 = 1 << 63

    /// - Precondition: `number` is not NaN, which JSON does not have.
    static func encode(_ number: Double) -> UInt64 {
        precondition(!number.isNaN, "NaN has no place in the order of keys")
        // Minus zero equals zero, so it has the same bytes.
        let bits = number == 0 ? 0 : number.bitPattern
        return bits & sign == 0 ? bits | sign : ~bits
    }

    /// The number of the bytes; nil if `encode` does not return them (NaN, minus zero).
    static func decode(_ ordered: UInt64) -> Double? {
        let bits = ordered & sign == 0 ? ~ordered : ordered & ~sign
        let number = Double(bitPattern: bits)
        return number.isNaN || bits == sign ? nil : number
    }
}
