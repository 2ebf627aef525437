import Indexing
import Testing
import Vocabulary

@Suite struct DevelopmentSubsetTests {
    private struct Case {
        let isDevelopment: Bool
        let usesFullSet: Bool
        let documents: UInt64
        let applies: Bool
    }

    @Test func onlyADevelopmentViewOfALargeBucketWithoutFullSetIsAnsweredFromTheSubset() {
        let cases = [
            Case(isDevelopment: true, usesFullSet: false, documents: 1_281, applies: true),
            Case(isDevelopment: true, usesFullSet: false, documents: 1_280, applies: false),
            Case(isDevelopment: true, usesFullSet: true, documents: 1_000_000, applies: false),
            Case(isDevelopment: false, usesFullSet: false, documents: 1_000_000, applies: false),
            Case(isDevelopment: true, usesFullSet: false, documents: 0, applies: false),
        ]
        for value in cases {
            let applies = DevelopmentSubset.applies(
                isDevelopment: value.isDevelopment,
                usesFullSet: value.usesFullSet,
                documents: value.documents,
                vBuckets: 64
            )
            #expect(applies == value.applies, "\(value)")
        }
    }

    private static func coordination(_ actives: [UInt16]) -> QueryCoordination {
        var terms = QueryCoordination.Terms(
            deadline: QueryCoordinationTests.deadline,
            merge: MergePlan()
        )
        terms.usesSubset = true
        return QueryCoordination(terms, map: QueryCoordinationTests.map(1, actives))
    }

    @Test func subsetIsAskedOfTheActiveNodeOfTheFirstServedVBucketAlone() {
        var coordination = Self.coordination([0, 2, 1, 2])
        let dispatches = QueryCoordinationTests.sends(coordination.begin(now: 0))
        #expect(dispatches.map(\.node.value) == [2])
        #expect(dispatches.map { $0.vBuckets.map(\.number) } == [[1]])
    }

    @Test func vBucketsOutsideTheSubsetAreNotNamedAsMissing() {
        var coordination = Self.coordination([0, 2, 0, 2])
        _ = coordination.begin(now: 0)
        let opened = QueryCoordinationTests.reply(
            QueryCoordinationTests.started,
            2,
            &coordination
        )
        #expect(opened == [.open(totalRows: 10)])
        #expect(coordination.failures.isEmpty)
    }

    @Test func bucketWithoutActiveCopiesNamesAllVBuckets() {
        var coordination = Self.coordination([0, 0])
        let actions = coordination.begin(now: 0)
        #expect(actions.contains(.open(totalRows: 0)))
        #expect(
            coordination.failures == [QueryCoordinationTests.failure(0, [0, 1], .notServed)]
        )
    }

    @Test func subsetFollowsItsVBucketToAnotherNode() {
        var coordination = Self.coordination([1, 2])
        _ = coordination.begin(now: 0)
        _ = QueryCoordinationTests.reply(.moved(2), 1, &coordination)
        _ = coordination.adopt(QueryCoordinationTests.map(2, [2, 2]), now: 1)
        let dispatches = QueryCoordinationTests.sends(coordination.advance(now: 10_000))
        #expect(dispatches.map(\.node.value) == [2])
        #expect(dispatches.map { $0.vBuckets.map(\.number) } == [[0]])
    }
}
