/// The walks' own generator (splitmix64): small enough to be inlined into every step.
struct Dice {
    private var state: UInt64

    /// Mixes the seed first: the generator adds a constant in each step, and the sequences of
    /// consecutive seeds must not overlap.
    init(seed: UInt64) {
        let mixed = (seed ^ 0x5851_f42d_4c95_7f2d) &* 0xd134_2543_de82_ef95
        state = (mixed ^ mixed >> 32) &* 0xaef1_7502_108e_f2d9
    }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var value = state
        value = (value ^ value >> 30) &* 0xbf58_476d_1ce4_e5b9
        value = (value ^ value >> 27) &* 0x94d0_49bb_1331_11eb
        return value ^ value >> 31
    }

    /// A number from 0 up to, not including, `count`; the bias does not matter here.
    mutating func below(_ count: Int) -> Int {
        Int(truncatingIfNeeded: next() >> 33) % count
    }

    mutating func oneIn(_ count: Int) -> Bool { below(count) == 0 }
}

/// A set of numbers below 8: nodes or keys.
struct Members: Equatable {
    var bits: UInt8 = 0

    init(bits: UInt8 = 0) { self.bits = bits }
    init(_ member: Int) { bits = 1 << UInt8(member) }

    var count: Int { bits.nonzeroBitCount }
    var isEmpty: Bool { bits == 0 }

    func contains(_ member: Int) -> Bool { bits >> UInt8(member) & 1 == 1 }
    mutating func insert(_ member: Int) { bits |= 1 << UInt8(member) }
    mutating func remove(_ member: Int) { bits &= ~(1 << UInt8(member)) }
    func union(_ other: Members) -> Members { Members(bits: bits | other.bits) }
    func intersection(_ other: Members) -> Members { Members(bits: bits & other.bits) }
    func subtracting(_ other: Members) -> Members { Members(bits: bits & ~other.bits) }
}
