import Bytes
import Simulation
import Testing
import Vocabulary
import Wire

/// The checker of feeds is fed what it has to find.
@Suite struct FeedCheckerTests {
    private func snapshot(_ start: UInt64, _ end: UInt64, _ follower: inout FeedChecker) {
        let marker = DCPSnapshotMarker(start: Seqno(start), end: Seqno(end), flags: .memory)
        follower.receive(.snapshotMarker(marker))
    }

    private func change(
        _ seqno: UInt64,
        _ key: String,
        isDeleted: Bool = false,
        _ follower: inout FeedChecker,
        isPrepare: Bool = false
    ) {
        var meta = DocumentMeta(seqno: Seqno(seqno), cas: CAS(seqno))
        meta.isDeleted = isDeleted
        let bytes = Array(key.utf8)
        bytes.withUnsafeBytes { key in
            let change = DCPChange(meta: meta, key: ByteView(key), value: .empty)
            follower.receive(isPrepare ? .prepare(change, .majority) : .change(change))
        }
    }

    private func version(_ seqno: UInt64, isDeleted: Bool = false) -> CopyContent.Version {
        CopyContent.Version(seqno: Seqno(seqno), cas: CAS(seqno), value: nil, isDeleted: isDeleted)
    }

    private func follower() -> FeedChecker {
        var follower = FeedChecker()
        snapshot(0, 3, &follower)
        change(1, "a", &follower)
        change(3, "b", &follower)
        return follower
    }

    @Test func changesInOrderHaveNoFlaw() {
        var follower = follower()
        follower.receive(.seqnoAdvanced(Seqno(5)))
        snapshot(5, 6, &follower)
        change(6, "a", isDeleted: true, &follower)
        #expect(follower.flaw == nil && follower.position == Seqno(6))
        let copy = [Array("a".utf8): version(6, isDeleted: true), Array("b".utf8): version(3)]
        #expect(follower.difference(from: copy, isComplete: true) == nil)
    }

    @Test func everyInvalidFeedItemIsDetected() {
        var prepared = follower()
        snapshot(3, 4, &prepared)
        change(4, "c", &prepared, isPrepare: true)
        #expect(prepared.flaw != nil)

        var outside = follower()
        change(4, "c", &outside)
        #expect(outside.flaw != nil)

        var passed = follower()
        passed.receive(.seqnoAdvanced(Seqno(5)))
        snapshot(5, 6, &passed)
        change(5, "c", &passed)
        #expect(passed.flaw != nil)

        var gap = follower()
        snapshot(4, 6, &gap)
        #expect(gap.flaw != nil)

        var back = follower()
        back.receive(.seqnoAdvanced(Seqno(3)))
        #expect(back.flaw != nil)
    }

    @Test func missingAndSurplusDocumentsAreDetected() {
        let follower = follower()
        let (a, b, c) = (Array("a".utf8), Array("b".utf8), Array("c".utf8))
        let missing = [a: version(1), b: version(3), c: version(2)]
        #expect(follower.difference(from: missing, isComplete: true) != nil)
        #expect(follower.difference(from: [a: version(1)], isComplete: true) != nil)
        #expect(follower.difference(from: [a: version(1)], isComplete: false) == nil)
        let older = [a: version(1), b: version(2)]
        #expect(follower.difference(from: older, isComplete: true) != nil)
        let purged = [a: version(1), b: version(3), c: version(2, isDeleted: true)]
        #expect(follower.difference(from: purged, isComplete: true) == nil)
    }

    @Test func rollbackRestoresPositionAndDocuments() {
        var follower = follower()
        snapshot(3, 9, &follower)
        change(5, "c", &follower)
        #expect(follower.isInSnapshot)
        let request = follower.request
        #expect(request.snapshotStart == Seqno(3) && request.snapshotEnd == Seqno(9))
        follower.rollBack(to: Seqno(3))
        #expect(follower.position == Seqno(3) && follower.documents.count == 2)
        follower.rollBack(to: Seqno(2))
        #expect(follower.position == .zero && follower.documents.isEmpty)
        #expect(follower.restarts == 1)
    }
}
