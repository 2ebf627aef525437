import Bytes
import Server
import Testing
import ViewService
import Vocabulary

/// How many documents of `include_docs` are read at a time.
@Suite struct IncludedDocumentTests {
    private struct Counts {
        var now = 0
        var most = 0
        var all = 0
    }

    /// Reads 40 documents at once, each of which takes some turns; returns how many were under way at
    /// most, and how many there were.
    private func read(of owner: NodeNumber?) async -> (most: Int, all: Int) {
        let counts = Guarded(Counts())
        let reader = IncludedDocumentReader(
            owner: { _, _ in owner },
            read: { _, _ in
                counts.withLock { counts in
                    counts.now += 1
                    counts.most = max(counts.most, counts.now)
                }
                try? await Task.sleep(for: .milliseconds(5))
                counts.withLock { counts in
                    counts.now -= 1
                    counts.all += 1
                }
                return .refused(.notFound)
            }
        )
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<40 {
                group.addTask { _ = await reader.document([UInt8(number)], inBucket: "b") }
            }
        }
        return counts.withLock { ($0.most, $0.all) }
    }

    /// 64 documents of 1 MiB would close the connection that the cluster's nodes work by.
    @Test func fewDocumentsOfAnotherNodeAreReadAtATime() async {
        let (most, all) = await read(of: NodeNumber(2))
        #expect(most <= IncludedDocumentReader.readsMax)
        #expect(all == 40)
    }

    @Test func documentsOfThisNodeAreReadAtOnce() async {
        let (most, all) = await read(of: nil)
        #expect(most > IncludedDocumentReader.readsMax)
        #expect(all == 40)
    }

    @Test(arguments: [
        (DocumentOutcome.refused(.notFound), false), (.refused(.temporaryFailure), true),
        (.refused(.notMyVBucket), true), (.failed("too large"), true), (.noBucket, true),
    ])
    func failedReadIsNotReportedAsMissing(_ outcome: DocumentOutcome, _ isFailure: Bool) async {
        let reader = IncludedDocumentReader(owner: { _, _ in nil }, read: { _, _ in outcome })
        switch await reader.document([1], inBucket: "b") {
        case .found: Issue.record("no document was read")
        case .missing: #expect(!isFailure)
        case .failed(let reason):
            #expect(isFailure && reason.hasSuffix(".") || reason == "too large")
        }
    }
}
