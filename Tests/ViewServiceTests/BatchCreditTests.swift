import Indexing
import Testing
import ViewService

/// When an addition of credit continues a response.
@Suite(.serialized) struct BatchCreditTests {
    private let credit = BatchCredit()

    private func useAll() {
        for _ in 0..<RowMerge.creditMax { credit.use() }
    }

    @Test func newResponseHasTheCreditOfAStream() {
        for _ in 0..<RowMerge.creditMax {
            #expect(credit.isThere())
            credit.use()
        }
        #expect(!credit.isThere())
    }

    @Test func additionContinuesOnlyAResponseThatFoundNone() {
        #expect(!credit.add())
        credit.use()
        useAll()
        #expect(!credit.isThere())
        #expect(credit.add())
        #expect(!credit.add())
        #expect(credit.isThere())
    }

    @Test func creditAddedBeforeTheCheckIsFound() {
        useAll()
        #expect(!credit.add())
        #expect(credit.isThere())
        #expect(!credit.add())
    }
}
