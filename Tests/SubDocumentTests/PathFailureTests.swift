import SubDocument
import Testing

@Suite struct PathFailureTests {
    /// The SDKs abort on other numbers.
    @Test func everyFailureIsAStatusThatClientsAccept() {
        for failure in PathFailure.allCases {
            #expect(failure.rawValue == 0x04 || (0xc0...0xca).contains(failure.rawValue))
        }
    }
}
