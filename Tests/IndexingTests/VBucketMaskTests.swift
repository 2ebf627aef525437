import Indexing
import Testing
import Vocabulary

/// Lists and sets of vBuckets.
@Suite struct VBucketMaskTests {
    @Test func listsAreTheSameOnlyWithEqualVBucketsInEqualOrder() {
        func list(_ numbers: some Sequence<Int>) -> [VBucketID] {
            numbers.map { VBucketID(UInt16($0)) }
        }
        let all = list(0..<1_024)
        #expect(all.isSame(as: list(0..<1_024)))
        #expect(list([]).isSame(as: []))
        #expect(!all.isSame(as: list(0..<1_023)))
        #expect(!list(0..<1_023).isSame(as: all))
        #expect(!all.isSame(as: []))
        #expect(!list([1, 2]).isSame(as: list([2, 1])))
        // They differ in one byte of a number.
        #expect(!list([3, 5]).isSame(as: list([3, 5 + 256])))
        var other = all
        for place in [0, 511, 1_023] {
            other[place] = VBucketID(UInt16((place + 1) % 1_024))
            #expect(!all.isSame(as: other))
            other[place] = all[place]
        }
        #expect(all.isSame(as: other))
    }
}
