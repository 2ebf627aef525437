import HTTPFrontend
import Testing

/// What is read of a client that has not logged in.
@Suite struct StrangerInputTests {
    @Test func bodyOfUnauthenticatedClientIsReadAfterItsHeadIsAdmitted() {
        var input = StrangerInput(isStranger: true)
        let beforeHead = input.mayRead()
        #expect(beforeHead && input.receivesLittle)
        input.beginRequest()
        let held = [input.mayRead(), input.mayRead(), input.release()]
        #expect(held == [false, false, true])
        let admitted = [input.mayRead(), input.release()]
        #expect(admitted == [true, false])
        input.endRequest()
        input.beginRequest()
        let next = input.mayRead()
        #expect(!next)
        // A request that has arrived as a whole holds nothing.
        input.endRequest()
        let whole = input.mayRead()
        #expect(whole)
    }

    @Test func bodyOfAClientWithALoginIsReadAtOnceAndInLargePieces() {
        var input = StrangerInput(isStranger: true)
        input.beginRequest()
        let logins = [input.recordLogin(), input.recordLogin()]
        #expect(logins == [true, false])
        let release = input.release()
        #expect(!input.receivesLittle && !release)
        input.endRequest()
        input.beginRequest()
        let afterLogin = input.mayRead()
        #expect(afterLogin)
        var exempt = StrangerInput(isStranger: false)
        exempt.beginRequest()
        let exemptAnswers = [exempt.mayRead(), exempt.recordLogin()]
        #expect(exemptAnswers == [true, false])
    }
}
