import HTTPFrontend
import Orchestration
import Testing

/// How many sessions of the console there are, and how long they last.
@Suite struct SessionTests {
    let sessions = SessionTable()
    let state = ClusterState(memoryQuota: 1 << 30)

    private static let hour: UInt64 = 60 * 60 * 1_000

    private func begin(_ token: String, _ name: String = "ann", at now: UInt64) {
        sessions.begin(token, of: .administrator(name), in: state, nowMilliseconds: now)
    }

    private func isValid(_ token: String, at now: UInt64) -> Bool {
        sessions.identity(of: token, in: state, nowMilliseconds: now) != nil
    }

    @Test func sessionInUseEndsTwelveHoursAfterItsLogin() {
        begin("t", at: 1)
        for quarter in UInt64(1)..<48 { #expect(isValid("t", at: 1 + quarter * Self.hour / 4)) }
        #expect(isValid("t", at: 12 * Self.hour))
        #expect(!isValid("t", at: 1 + 12 * Self.hour))
    }

    @Test func unusedSessionEndsAfterHalfAnHour() {
        begin("t", at: 0)
        #expect(isValid("t", at: Self.hour / 2 - 1))
        #expect(!isValid("t", at: Self.hour))
    }

    @Test func twentyFirstSessionOfAnIdentityReplacesItsLeastRecentlyUsed() {
        begin("other", "bob", at: 0)
        for number in UInt64(0)..<20 { begin("\(number)", at: number) }
        #expect(isValid("0", at: 30))
        begin("20", at: 31)
        #expect(!isValid("1", at: 32))
        for kept in ["other", "0"] + (2...20).map(String.init) {
            #expect(isValid(kept, at: 33), "\(kept)")
        }
    }
}
