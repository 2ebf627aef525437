import ClusterService
import Testing
import Vocabulary

/// The documents of a bucket, from reports that the nodes sent at different moments.
@Suite struct CopyItemsTests {
    private let one = NodeNumber(1)
    private let two = NodeNumber(2)

    private func copies(_ entries: (items: UInt64, state: VBucketState)?...) -> CopyItems {
        var copies = CopyItems()
        for (vBucket, entry) in entries.enumerated() {
            guard let entry else { continue }
            copies.add(vBucket, items: entry.items, entry.state)
        }
        return copies
    }

    private func count(
        activeNodes: [NodeNumber?],
        _ reports: [(node: NodeNumber, copies: CopyItems)]
    ) -> [NodeNumber: UInt64] {
        var last: [UInt64] = []
        return CopyItems.count(activeNodes: activeNodes, reports, last: &last)
    }

    @Test func documentsOfAMovedVBucketCountOnceAlthoughBothNodesReportThemAsActive() {
        let reports = [
            (node: one, copies: copies((10, .active), (20, .active))),
            (node: two, copies: copies(nil, (21, .active))),
        ]
        let count = count(activeNodes: [one, two], reports)
        #expect(count == [one: 10, two: 21])
    }

    @Test func documentsOfAMovedVBucketCountOnceAlthoughNeitherNodeReportsThemAsActive() {
        let reports = [
            (node: one, copies: copies((10, .active), (20, .replica))),
            (node: two, copies: copies(nil, (7, .replica))),
        ]
        #expect(count(activeNodes: [one, two], reports) == [one: 10, two: 20])
        // Its former node has dropped its copy.
        let later = [reports[1], (node: one, copies: copies((10, .active)))]
        #expect(count(activeNodes: [one, two], later) == [one: 10, two: 7])
    }

    @Test func documentsCountForTheNewActiveNodeBeforeItReportsThem() {
        let reports = [
            (node: one, copies: copies((10, .active))), (node: two, copies: copies((10, .replica))),
        ]
        #expect(count(activeNodes: [two], reports) == [one: 0, two: 10])
    }

    @Test func replicasOfANodeThatDoesNotReportAreNoDocuments() {
        let reports = [(node: two, copies: copies((10, .replica), (5, .active)))]
        #expect(count(activeNodes: [one, one], reports) == [two: 5])
        #expect(count(activeNodes: [nil, nil], reports) == [two: 5])
    }

    @Test func documentsWithoutReportKeepTheirLastCount() {
        var last: [UInt64] = []
        let before = [(node: one, copies: copies((10, .active))), (node: two, copies: copies())]
        _ = CopyItems.count(activeNodes: [one], before, last: &last)
        #expect(last == [10])
        // The former node has dropped its copy, and the new one has reported nothing or a part of it.
        for part in [copies(), copies((3, .replica))] {
            let after = [(node: one, copies: copies()), (node: two, copies: part)]
            let count = CopyItems.count(activeNodes: [two], after, last: &last)
            #expect(count == [one: 0, two: 10])
        }
        let later = [(node: one, copies: copies()), (node: two, copies: copies((12, .active)))]
        #expect(CopyItems.count(activeNodes: [two], later, last: &last) == [one: 0, two: 12])
        #expect(last == [12])
    }

    @Test func countsOfADamagedReportDoNotOverflow() {
        let most = UInt64.max >> 3
        var damaged = CopyItems()
        for vBucket in 0..<64 { damaged.add(vBucket, items: most, .active) }
        let count = count(
            activeNodes: Array(repeating: one, count: 64),
            [(node: one, copies: damaged)]
        )
        #expect(count[one] == damaged.items(.active))
        #expect(damaged.items(.active) == most &* 64)
    }
}
