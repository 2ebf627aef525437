/// A seeded 64-bit hash of a key, which determines its place in its vBucket's table.
///
/// CRC-32 is not suitable: it has chosen the vBucket already, so keys of one vBucket share its
/// bits. The seed prevents a client from choosing keys that collide. The hash multiplies and folds
/// 16 bytes per step (the idea of wyhash, Wang Yi 2019).
///
/// - Both factors of every product depend on the seed, so that a key cannot make one of them zero,
///   which would cancel the other.
/// - The length is mixed in last: beside key bytes, other key bytes could compensate for it.
package struct KeyHash: Sendable {
    private let seed: UInt64

    package init(seed: UInt64) {
        self.seed = seed ^ 0x9e37_79b9_7f4a_7c15
    }

    @inline(__always)
    private static func fold(_ one: UInt64, _ other: UInt64) -> UInt64 {
        let product = one.multipliedFullWidth(by: other)
        return product.high ^ product.low
    }

    package func callAsFunction(_ key: ByteView) -> UInt64 {
        var state = seed
        let (mask, last) = (seed ^ 0xa076_1d64_78bd_642f, seed ^ 0xe703_7ed1_a0b4_28db)
        var offset = 0
        while key.count - offset > 16 {
            let one = key.littleEndian(at: offset, as: UInt64.self)
            let other = key.littleEndian(at: offset + 8, as: UInt64.self)
            state = KeyHash.fold(one ^ mask, other ^ state)
            offset += 16
        }
        let (one, other) = KeyHash.tail(key, offset)
        state = KeyHash.fold(one ^ last, other ^ state)
        let length = UInt64(key.count) &* 0x5899_65cc_7537_4cc3
        return KeyHash.fold(state ^ 0x8ebc_6af0_9c88_c6e3, length ^ seed)
    }

    /// The last 0 to 16 bytes as two words; overlapping loads avoid a loop.
    @inline(__always)
    private static func tail(_ key: ByteView, _ offset: Int) -> (UInt64, UInt64) {
        let left = key.count - offset
        if left >= 8 {
            return (
                key.littleEndian(at: offset, as: UInt64.self),
                key.littleEndian(at: key.count - 8, as: UInt64.self)
            )
        }
        if left >= 4 {
            return (
                UInt64(key.littleEndian(at: offset, as: UInt32.self)),
                UInt64(key.littleEndian(at: key.count - 4, as: UInt32.self))
            )
        }
        guard left > 0 else { return (0, 0) }
        let first = UInt64(key[offset]) << 16
        let middle = UInt64(key[offset + left / 2]) << 8
        return (first | middle | UInt64(key[key.count - 1]), 0)
    }
}
