import DataService
import Testing
import Vocabulary

@Suite("Kept and noted positions of TAP connections")
struct TapPositionsTests {
    private let client = TapPositions.Client(login: "sync", host: "127.0.0.1")
    private let vBucket = VBucketID(7)

    private func position(_ seqno: UInt64) -> TapPositions.Position {
        TapPositions.Position(uuid: VBucketUUID(1), seqno: Seqno(seqno))
    }

    @Test func sameClientContinuesAtItsPositionForAMinute() {
        let kept = TapPositions()
        kept.keep([vBucket: position(12)], of: client, connection: kept.nextConnection(), at: 5)
        let last = 5 + TapPositions.keptNanoseconds
        #expect(kept.positions(of: client, at: last - 1) == [vBucket: position(12)])
        #expect(kept.positions(of: client, at: last).isEmpty)
    }

    @Test func otherLoginOrHostHasNoKeptPositions() {
        let kept = TapPositions()
        kept.keep([vBucket: position(12)], of: client, connection: kept.nextConnection(), at: 0)
        let login = TapPositions.Client(login: "other", host: "127.0.0.1")
        let host = TapPositions.Client(login: "sync", host: "127.0.0.2")
        #expect(kept.positions(of: login, at: 1).isEmpty)
        #expect(kept.positions(of: host, at: 1).isEmpty)
    }

    @Test func laterPositionsOfAConnectionReplaceEarlierOnes() {
        let kept = TapPositions()
        let connection = kept.nextConnection()
        kept.keep([vBucket: position(12)], of: client, connection: connection, at: 0)
        kept.keep([vBucket: position(15)], of: client, connection: connection, at: 1)
        #expect(kept.positions(of: client, at: 2) == [vBucket: position(15)])
    }

    @Test func twoConnectionsOfAClientLeaveTheLowerPositions() {
        let kept = TapPositions()
        let other = VBucketID(8)
        let connections = (0..<3).map { _ in kept.nextConnection() }
        kept.keep([vBucket: position(12)], of: client, connection: connections[0], at: 0)
        kept.keep(
            [vBucket: position(9), other: position(3)],
            of: client,
            connection: connections[1],
            at: 1
        )
        kept.keep([vBucket: position(20)], of: client, connection: connections[2], at: 2)
        #expect(
            kept.positions(of: client, at: 3) == [vBucket: position(9), other: position(3)]
        )
    }

    @Test func oldestPositionsAreDroppedAboveTheLimitOfConnections() {
        let kept = TapPositions()
        for number in 0...TapPositions.connectionsMax {
            kept.keep(
                [vBucket: position(12)],
                of: TapPositions.Client(login: "\(number)", host: "127.0.0.1"),
                connection: kept.nextConnection(),
                at: UInt64(number)
            )
        }
        func isKept(_ number: Int) -> Bool {
            let client = TapPositions.Client(login: "\(number)", host: "127.0.0.1")
            return !kept.positions(of: client, at: 100).isEmpty
        }
        #expect(!isKept(0))
        #expect((1...TapPositions.connectionsMax).allSatisfy(isKept))
    }

    @Test func nodeIsKnownToClientsSomeTimeAfterItJoined() {
        let positions = TapPositions()
        let (one, two) = (NodeNumber(1), NodeNumber(2))
        positions.note(nodes: [one], at: 5)
        #expect(positions.knownNodes(at: 5) == [one])
        positions.note(nodes: [one, two], at: 10)
        positions.note(nodes: [one, two], at: 20)
        let known = 10 + TapPositions.settlingNanoseconds
        #expect(positions.knownNodes(at: known - 1) == [one])
        #expect(positions.knownNodes(at: known) == [one, two])
        positions.note(nodes: [one], at: known)
        positions.note(nodes: [one, two], at: known + 1)
        #expect(positions.knownNodes(at: known + 2) == [one])
    }

    @Test("A noted position serves every client for a minute")
    func notedPositionServesEveryClientForAMinute() {
        let positions = TapPositions()
        positions.note([vBucket: position(12)], at: 5)
        let other = TapPositions.Client(login: "other", host: "127.0.0.2")
        let last = 5 + TapPositions.keptNanoseconds
        for each in [client, other] {
            #expect(positions.positions(of: each, at: last - 1) == [vBucket: position(12)])
        }
        #expect(positions.positions(of: client, at: last).isEmpty)
    }

    @Test("A second note of a vBucket keeps the lower position for another minute")
    func secondNoteKeepsLowerPositionForAnotherMinute() {
        let positions = TapPositions()
        positions.note([vBucket: .beginning], at: 0)
        positions.note([vBucket: position(12)], at: 10)
        let last = 10 + TapPositions.keptNanoseconds
        #expect(positions.positions(of: client, at: last - 1) == [vBucket: .beginning])
        positions.note([vBucket: position(20)], at: last)
        #expect(positions.positions(of: client, at: last) == [vBucket: position(20)])
    }

    @Test("The lower one of a kept and a noted position counts")
    func lowerOfKeptAndNotedPositionCounts() {
        let positions = TapPositions()
        let other = VBucketID(8)
        positions.keep(
            [vBucket: position(9), other: position(30)],
            of: client,
            connection: positions.nextConnection(),
            at: 0
        )
        positions.note([vBucket: position(12), other: position(20)], at: 0)
        #expect(
            positions.positions(of: client, at: 1) == [vBucket: position(9), other: position(20)]
        )
    }

    @Test("An expired note leaves the kept position")
    func expiredNoteLeavesKeptPosition() {
        let positions = TapPositions()
        positions.note([vBucket: position(3)], at: 0)
        let connection = positions.nextConnection()
        positions.keep([vBucket: position(9)], of: client, connection: connection, at: 5)
        let now = TapPositions.keptNanoseconds
        #expect(positions.positions(of: client, at: now) == [vBucket: position(9)])
    }
}
