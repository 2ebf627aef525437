import Bytes
import Orchestration
import Testing
import Vocabulary

/// The positions and streams of an HTTP feed: what is opened where, and what the consumer gets.
@Suite struct ChangesCollectionTests {
    private let uuid = VBucketUUID(77)
    private let first = NodeNumber(1)
    private let second = NodeNumber(2)

    /// A collection of four vBuckets, all on the first node, with its streams 1 to 4 accepted.
    private func begun(
        _ feed: ChangesCollection.Feed,
        high: Seqno = .zero,
        limit: Int? = nil
    ) -> ChangesCollection {
        let positions = [ChangesPosition](repeating: .start, count: 4)
        var collection = ChangesCollection(positions: positions, feed: feed, limit: limit)
        collection.follow([first, first, first, first])
        collection.openStreams()
        for number in 1...4 as ClosedRange<UInt32> {
            collection.open(number, as: uuid, start: .zero, high: high)
        }
        return collection
    }

    /// The numbers of the streams that orders open and close.
    private func numbers(_ orders: [ChangesCollection.Order]) -> (open: [UInt32], close: [UInt32]) {
        var found: (open: [UInt32], close: [UInt32]) = ([], [])
        for order in orders {
            switch order {
            case .open(_, let number, _, _): found.open.append(number)
            case .close(_, let number): found.close.append(number)
            }
        }
        return found
    }

    // MARK: The end of a feed

    @Test func normalFeedOfEmptyBucketIsCompleteOnceAccepted() {
        let collection = begun(.normal)
        #expect(collection.isBegun && collection.isComplete(snapshotsMax: 0))
    }

    @Test func normalFeedClosesVBucketAtItsSeqnoAtTheBeginning() {
        var collection = begun(.normal, high: Seqno(2))
        _ = collection.removeOrders()
        collection.beginSnapshot(1, from: .zero, to: Seqno(3))
        #expect(collection.change(1, Seqno(2)) == VBucketID(0))
        // The rest of the snapshot belongs to the consistent state.
        #expect(collection.removeOrders().isEmpty)
        #expect(collection.change(1, Seqno(3)) == VBucketID(0))
        #expect(numbers(collection.removeOrders()).close == [1])
        #expect(collection.change(1, Seqno(4)) == nil)
        for number in 2...4 as ClosedRange<UInt32> {
            let isComplete = collection.isComplete(snapshotsMax: 0)
            #expect(!isComplete)
            collection.advance(number, to: Seqno(2))
        }
        #expect(collection.isComplete(snapshotsMax: 0))
    }

    @Test func longpollEndsAfterFirstChange() {
        var collection = begun(.longpoll)
        #expect(!collection.isComplete(snapshotsMax: 4))
        collection.beginSnapshot(3, from: .zero, to: Seqno(1))
        #expect(collection.change(3, Seqno(1)) == VBucketID(2))
        #expect(collection.isComplete(snapshotsMax: 4))
    }

    @Test func longpollBehindTheBeginningDeliversEverythingUpToIt() {
        var collection = begun(.longpoll, high: Seqno(1))
        for number in 1...4 as ClosedRange<UInt32> {
            #expect(!collection.isComplete(snapshotsMax: 4))
            collection.beginSnapshot(number, from: .zero, to: Seqno(1))
            #expect(collection.change(number, Seqno(1)) != nil)
        }
        #expect(collection.isComplete(snapshotsMax: 4))
    }

    @Test func eventSourceEndsOnlyAtItsLimit() {
        var collection = begun(.eventsource, limit: 2)
        collection.beginSnapshot(1, from: .zero, to: Seqno(9))
        #expect(collection.change(1, Seqno(1)) != nil)
        #expect(!collection.isComplete(snapshotsMax: 4))
        #expect(collection.change(1, Seqno(2)) != nil)
        #expect(collection.isComplete(snapshotsMax: 4))
        #expect(collection.change(1, Seqno(3)) == nil)
        #expect(collection.positions[0].seqno == Seqno(2))
    }

    // MARK: The map

    @Test func movedVBucketIsOpenedOnNewOwnerFromItsPosition() {
        var collection = begun(.eventsource)
        _ = collection.removeOrders()
        collection.beginSnapshot(1, from: .zero, to: Seqno(4))
        #expect(collection.change(1, Seqno(3)) != nil)
        collection.follow([second, first, first, first])
        collection.openStreams()
        var position = ChangesPosition(branch: .uuid(uuid), seqno: Seqno(3))
        (position.snapshotStart, position.snapshotEnd) = (.zero, Seqno(4))
        #expect(
            collection.removeOrders() == [
                .close(first, number: 1), .open(second, number: 5, VBucketID(0), position),
            ]
        )
        // Messages of the closed stream are under way.
        #expect(collection.change(1, Seqno(4)) == nil)
        collection.open(5, as: uuid, start: Seqno(3), high: Seqno(9))
        collection.beginSnapshot(5, from: Seqno(3), to: Seqno(4))
        #expect(collection.positions[0].snapshotStart == .zero)
        #expect(collection.change(5, Seqno(4)) == VBucketID(0))
        #expect(collection.positions[0] == ChangesPosition(branch: .uuid(uuid), seqno: Seqno(4)))
    }

    @Test func repeatedChangeIsNotDelivered() {
        var collection = begun(.eventsource)
        #expect(collection.change(1, Seqno(3)) != nil)
        #expect(collection.change(1, Seqno(3)) == nil)
        #expect(collection.change(1, Seqno(2)) == nil)
    }

    @Test func streamsOfLostNodeAreOpenedAgainWithOthersUntouched() {
        var collection = begun(.eventsource)
        collection.follow([first, second, first, second])
        collection.openStreams()
        _ = collection.removeOrders()
        collection.lose(second)
        #expect(collection.hasUnopened && collection.missing == VBucketID(1))
        collection.openStreams()
        #expect(numbers(collection.removeOrders()).open == [7, 8])
    }

    @Test func vBucketWithoutOwnerWaits() {
        var collection = begun(.eventsource)
        collection.follow([nil, first, first, first])
        #expect(!collection.hasUnopened && collection.missing == VBucketID(0))
    }

    @Test func positionsInsideSnapshotAreOpenedFirst() {
        var inside = ChangesPosition(branch: .uuid(uuid), seqno: Seqno(3))
        (inside.snapshotStart, inside.snapshotEnd) = (Seqno(1), Seqno(9))
        var collection = ChangesCollection(positions: [.start, inside], feed: .normal)
        collection.follow([first, first])
        collection.openStreams()
        #expect(
            collection.removeOrders() == [
                .open(first, number: 1, VBucketID(1), inside),
                .open(first, number: 2, VBucketID(0), .start),
            ]
        )
    }

    // MARK: Rollback and purge

    @Test func rollbackNamesVBucketAndSeqnoAndContinuesFromThere() {
        var collection = begun(.eventsource)
        #expect(collection.change(2, Seqno(8)) != nil)
        collection.end(2)
        collection.openStreams()
        let other = VBucketUUID(78)
        let rollback = collection.rollBack(5, to: Seqno(6), of: other)
        #expect(rollback?.vBucket == VBucketID(1) && rollback?.seqno == Seqno(6))
        _ = collection.removeOrders()
        collection.openStreams()
        let position = ChangesPosition(branch: .uuid(other), seqno: Seqno(6))
        #expect(
            collection.removeOrders() == [.open(first, number: 6, VBucketID(1), position)]
        )
        collection.open(6, as: other, start: Seqno(6), high: Seqno(7))
        #expect(collection.change(6, Seqno(7)) == VBucketID(1))
    }

    @Test func rollbackToZeroNeedsNoHistory() {
        var collection = begun(.eventsource)
        #expect(collection.change(1, Seqno(8)) != nil)
        #expect(collection.rollBack(1, to: .zero, of: VBucketUUID(78)) != nil)
        #expect(collection.positions[0] == .start)
    }

    @Test func endOfNormalFeedIsLoweredToHighSeqnoAfterFailover() {
        var collection = begun(.normal, high: Seqno(8))
        collection.end(1)
        collection.openStreams()
        collection.open(5, as: VBucketUUID(78), start: .zero, high: Seqno(6))
        _ = collection.removeOrders()
        collection.advance(5, to: Seqno(6))
        #expect(numbers(collection.removeOrders()).close == [5])
    }

    @Test func purgeRefusesPositionOfToken() {
        var collection = begun(.eventsource)
        #expect(collection.purge(1) == .refused(VBucketID(0)))
        #expect(collection.purge(1) == .ignored)
    }

    @Test func purgeAfterRollbackRestartsTheVBucket() {
        var collection = begun(.eventsource)
        #expect(collection.change(1, Seqno(8)) != nil)
        #expect(collection.rollBack(1, to: Seqno(6), of: uuid) != nil)
        collection.openStreams()
        guard case .restarted(let rollback) = collection.purge(5) else {
            Issue.record("the vBucket was not restarted")
            return
        }
        #expect(rollback?.seqno == .zero && collection.positions[0] == .start)
    }

    // MARK: Walks

    /// Whatever the map and the nodes do, each seqno is delivered once, in order.
    @Test(arguments: 1...50 as ClosedRange<UInt64>) func walkDeliversEachChangeOnce(_ seed: UInt64)
    {
        var random = SeededRandom(seed: seed)
        func roll(_ sides: Int) -> Int { Int(random.next() % UInt64(sides)) }
        var collection = ChangesCollection(positions: [.start, .start], feed: .eventsource)
        var streams: [UInt32: (vBucket: Int, next: UInt64)] = [:]
        var delivered: [[UInt64]] = [[], []]
        collection.follow([first, first])
        for _ in 0..<400 {
            switch roll(6) {
            case 0:
                let owners = (0..<2).map { _ in roll(2) == 0 ? first : second }
                collection.follow(owners)
            case 1: collection.openStreams()
            case 2: collection.lose(roll(2) == 0 ? first : second)
            default:
                let numbers = streams.keys.sorted()
                guard !numbers.isEmpty else { break }
                let number = numbers[roll(numbers.count)]
                guard let stream = streams[number] else { break }
                streams[number]?.next += 1
                if let vBucket = collection.change(number, Seqno(stream.next)) {
                    delivered[Int(vBucket.number)].append(stream.next)
                }
            }
            for case .open(_, let number, let id, let position) in collection.removeOrders() {
                streams[number] = (Int(id.number), position.seqno.value + 1)
                collection.open(number, as: uuid, start: position.seqno, high: .zero)
            }
        }
        for seqnos in delivered {
            #expect(seqnos == (0..<seqnos.count).map { UInt64($0) + 1 })
        }
    }
}
