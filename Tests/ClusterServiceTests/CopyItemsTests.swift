import ClusterService
import Testing
import Vocabulary

/// The documents of a bucket, from reports that the nodes sent at different moments.
@Suite struct CopyItemsTests {
    private let (one, two) = (NodeNumber(1), NodeNumber(2))

    private func copies(_ entries: (items: UInt64, state: VBucketState)?...) -> CopyItems {
        var copies = CopyItems()
        for (vBucket, entry) in entries.enumerated() {
            guard let entry else { continue }
            copies.add(vBucket, items: entry.items, entry.state)
        }
        return copies
    }

    @Test func documentsOfAMovedVBucketCountOnceAlthoughBothNodesReportThemAsActive() {
        let reports = [
            (node: one, copies: copies((10, .active), (20, .active))),
            (node: two, copies: copies(nil, (21, .active))),
        ]
        let count = CopyItems.count(activeNodes: [one, two], reports)
        #expect(count == [one: 10, two: 21])
    }

    @Test func documentsOfAMovedVBucketCountOnceAlthoughNeitherNodeReportsThemAsActive() {
        let reports = [
            (node: one, copies: copies((10, .active), (20, .replica))),
            (node: two, copies: copies(nil, (7, .replica))),
        ]
        #expect(CopyItems.count(activeNodes: [one, two], reports) == [one: 10, two: 20])
        // Its former node has dropped its copy.
        let later = [reports[1], (node: one, copies: copies((10, .active)))]
        #expect(CopyItems.count(activeNodes: [one, two], later) == [one: 10, two: 7])
    }

    @Test func documentsCountForTheNewActiveNodeBeforeItReportsThem() {
        let reports = [
            (node: one, copies: copies((10, .active))), (node: two, copies: copies((10, .replica))),
        ]
        #expect(CopyItems.count(activeNodes: [two], reports) == [one: 0, two: 10])
    }

    @Test func replicasOfANodeThatDoesNotReportAreNoDocuments() {
        let reports = [(node: two, copies: copies((10, .replica), (5, .active)))]
        #expect(CopyItems.count(activeNodes: [one, one], reports) == [two: 5])
        #expect(CopyItems.count(activeNodes: [nil, nil], reports) == [two: 5])
    }
}
