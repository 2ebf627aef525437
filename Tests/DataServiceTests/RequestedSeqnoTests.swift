import Bytes
import DataService
import TestWorld
import Testing
import Vocabulary

/// Seqnos of clients: any 64 bits are compared with the vBucket's history, and not by the bounds of our
/// own seqnos.
@Suite struct RequestedSeqnoTests {
    private static let high: UInt64 = 3
    private static let values: [UInt64] = [
        0, 1, high, high + 1, 1 << 48 - 1, 1 << 48, 1 << 63, .max,
    ]
    private static let vBucket = VBucketID(ofKey: Array("k".utf8), count: 64).number

    /// A stream request as its seqnos.
    private struct Request {
        let start: UInt64
        let end: UInt64
        let snapshotStart: UInt64
        let snapshotEnd: UInt64

        /// Status and the seqno of a rollback (`StreamOpening`).
        func answer(isKnown: Bool) -> (status: UInt16, rollback: UInt64?) {
            if start == 0 { return (0, nil) }
            guard start <= end, snapshotStart <= start, start <= snapshotEnd else {
                return (0x22, nil)
            }
            guard isKnown else { return (0x23, 0) }
            var (first, last) = (snapshotStart, snapshotEnd)
            if start == last { first = last }
            if start == first { last = first }
            return last <= high ? (0, nil) : (0x23, min(first, high))
        }
    }

    /// Three changes of the document `k`, and a client with an open producer.
    private func open(_ world: TestWorld) throws -> Client {
        try world.service.open(TestWorld.settings("b", .ephemeral))
        let client = world.client(of: "b")
        for number in 1...Self.high { _ = client.ask(Ask.set("k", "\(number)")) }
        #expect(client.ask(Ask.openProducer).map(\.status) == [0])
        return client
    }

    private func send(_ client: Client, _ request: [UInt8], opaque: UInt32) -> Reply? {
        client.send(request)
        client.settle()
        return client.messages().first { !$0.isRequest && $0.opaque == opaque }
    }

    private func send(_ client: Client, _ request: Request, uuid: UInt64) throws -> Reply {
        let numbers = [
            request.start, request.end, uuid, request.snapshotStart, request.snapshotEnd,
        ]
        let bytes = frame(
            0x53,
            extras: big(UInt64(0)) + numbers.flatMap { big($0) },
            vBucket: Self.vBucket,
            opaque: 5
        )
        let reply = try #require(send(client, bytes, opaque: 5))
        if reply.status == 0 {
            _ = send(client, frame(0x52, vBucket: Self.vBucket, opaque: 6), opaque: 6)
        }
        return reply
    }

    @Test func streamRequestWithExtremeSeqnosIsAnsweredByFailoverLog() throws {
        let world = TestWorld()
        let client = try open(world)
        let zero = Request(start: 0, end: .max, snapshotStart: 0, snapshotEnd: 0)
        let log = try send(client, zero, uuid: 0).value
        let uuid = log.prefix(8).reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        for start in Self.values {
            for end in Self.values {
                for first in Self.values {
                    for last in Self.values {
                        let request = Request(
                            start: start,
                            end: end,
                            snapshotStart: first,
                            snapshotEnd: last
                        )
                        for isKnown in [true, false] {
                            let reply = try send(client, request, uuid: isKnown ? uuid : uuid ^ 1)
                            let expected = request.answer(isKnown: isKnown)
                            let place = "\(request), known: \(isKnown)"
                            #expect(reply.status == expected.status, "\(place)")
                            guard let rollback = expected.rollback else { continue }
                            #expect(reply.value == big(rollback), "\(place)")
                        }
                    }
                }
            }
        }
    }

    /// The other numbers of requests that stand for a history or a position.
    @Test func extremeNumbersOfOtherRequestsHaveDefinedStatuses() throws {
        let world = TestWorld()
        let client = try open(world)
        for number in Self.values {
            // OBSERVE_SEQNO of a history that does not exist.
            let observe = frame(0x91, value: big(number), vBucket: Self.vBucket)
            #expect(client.ask(observe).map(\.status) == [1], "\(number)")
            // The date of TAP's backfill.
            let tap = world.client(of: "b")
            tap.send(frame(0x40, value: big(number), extras: big(UInt32(1))) + frame(0x0a))
            tap.settle()
            let statuses = tap.messages().filter { !$0.isRequest }.map(\.status)
            #expect(statuses == [0], "\(number)")
            tap.hangUp()
            // The version that a change names.
            guard number != 0 else { continue }
            let statusOfCAS = client.ask(Ask.on(0x01, "k", [], extras: big(UInt64(0)), 0, number))
            #expect(statusOfCAS.map(\.status) == [2], "\(number)")
        }
    }

    /// Revisions have 48 bits, as in Couchbase Server.
    @Test func revisionOfForeignVersionHas48Bits() throws {
        let world = TestWorld()
        let client = try open(world)
        for (revision, status) in [(1 << 48 - 1, 0), (1 << 48, 4), (.max, 4)] as [(UInt64, UInt16)]
        {
            let extras = big(UInt64(0)) + big(revision) + big(UInt64(1_000))
            let request = Ask.on(0xa2, "foreign-\(revision)", [], extras: extras)
            #expect(client.ask(request).map(\.status) == [status], "\(revision)")
        }
    }
}
