import HTTPFrontend
import Testing

/// What is read of a client that has not logged in.
@Suite struct StrangerInputTests {
    @Test func bodyOfAStrangerWaitsForTheAdmissionOfItsHead() {
        var input = StrangerInput(isStranger: true)
        #expect(input.mayRead() && input.receivesLittle)
        input.beginRequest()
        #expect(!input.mayRead() && !input.mayRead())
        #expect(input.release())
        #expect(input.mayRead() && !input.release())
        input.endRequest()
        input.beginRequest()
        #expect(!input.mayRead())
        // A request that has arrived as a whole holds nothing.
        input.endRequest()
        #expect(input.mayRead())
    }

    @Test func bodyOfAClientWithALoginIsReadAtOnceAndInLargePieces() {
        var input = StrangerInput(isStranger: true)
        input.beginRequest()
        #expect(input.noteLogin() && !input.noteLogin())
        #expect(!input.receivesLittle && !input.release())
        input.endRequest()
        input.beginRequest()
        #expect(input.mayRead())
        var exempt = StrangerInput(isStranger: false)
        exempt.beginRequest()
        #expect(exempt.mayRead() && !exempt.noteLogin())
    }
}
