import DivanClient
import Testing

/// The expiry field that a client sends.
@Suite struct ExpiryTests {
    private static let second: UInt64 = 1_000_000_000
    private let now: UInt64 = 1_700_000_000

    @Test(arguments: [UInt64(0), 1, 500_000_000, 999_999_999])
    func expiryBeyondThirtyDaysIsSentAsATimeThatIsNotEarly(_ phase: UInt64) {
        let sent = Expiry.afterSeconds(2_592_001).wire(wallNanoseconds: now * Self.second + phase)
        #expect(UInt64(sent) == now + 2_592_001 + (phase == 0 ? 0 : 1))
    }

    static let rows: [(Expiry, UInt32)] = [
        (.never, 0), (.afterSeconds(0), 1), (.afterSeconds(1), 1),
        (.afterSeconds(2_592_000), 2_592_000), (.afterSeconds(.max), .max),
        (.at(5), 2_592_001), (.at(1_700_000_001), 1_700_000_001),
    ]

    @Test(arguments: rows)
    func otherExpiriesAreSentAsTheyAre(_ expiry: Expiry, _ field: UInt32) {
        #expect(expiry.wire(wallNanoseconds: now * Self.second + 500_000_000) == field)
    }
}
