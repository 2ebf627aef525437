import DataService
import Engine
import Seams
import TestWorld
import Testing
import Vocabulary

/// Requests that wait for the disk, and the other requests of their connection.
@Suite struct ParkingTests {
    let world = TestWorld()
    private static let large = String(repeating: "cold ", count: 20_480)

    /// A persistent bucket with one resident document and others whose value is only on disk.
    init() throws {
        try world.service.open(TestWorld.settings("guests", .persistent))
        let client = world.client(of: "guests")
        var requests = Ask.set("warm", "warm value")
        for number in 0..<200 { requests += Ask.set("cold\(number)", "cold value \(number)") }
        for number in 0..<40 { requests += Ask.set("large\(number)", ParkingTests.large) }
        let replies = client.ask(requests)
        try #require(replies.count == 241)
        world.pass(milliseconds: 500)
        for number in 0..<200 { try #require(world.eject("cold\(number)", from: "guests")) }
        for number in 0..<40 { try #require(world.eject("large\(number)", from: "guests")) }
    }

    private func unordered(without: UInt16? = nil) -> Client {
        world.client(of: "guests", features: Features.usual + [Features.unordered])
    }

    @Test func answersKeepOrderWithoutUnorderedExecution() {
        let client = world.client(of: "guests")
        world.lanes.hold("reader")
        client.send(Ask.get("cold1", opaque: 1) + Ask.get("warm", opaque: 2))
        client.settle()
        #expect(client.replies().isEmpty)
        #expect(client.isPaused)
        client.send(Ask.get("cold2", opaque: 3))
        #expect(client.replies().isEmpty)
        world.lanes.release("reader")
        client.settle()
        let replies = client.replies()
        #expect(replies.map(\.opaque) == [1, 2, 3])
        #expect(replies.map(\.text) == ["cold value 1", "warm value", "cold value 2"])
    }

    @Test func unorderedExecutionOvertakesParkedRequest() {
        let client = unordered()
        world.lanes.hold("reader")
        client.send(Ask.get("cold1", opaque: 1) + Ask.get("warm", opaque: 2))
        #expect(client.replies().map(\.opaque) == [2])
        world.lanes.release("reader")
        client.settle()
        #expect(client.replies().map(\.text) == ["cold value 1"])
    }

    @Test func barrierWaitsForParkedRequests() {
        let client = unordered()
        world.lanes.hold("reader")
        client.send(
            Ask.get("cold1", opaque: 1) + Ask.on(0x00, "warm", [], 2, framing: [0x00])
                + Ask.get("warm", opaque: 3)
        )
        client.settle()
        #expect(client.replies().isEmpty)
        world.lanes.release("reader")
        client.settle()
        #expect(client.replies().map(\.opaque) == [1, 2, 3])
    }

    @Test func waitingBarrierBlocksLaterRequests() {
        let client = unordered()
        world.lanes.hold("reader")
        client.send(Ask.on(0x00, "cold1", [], 1, framing: [0x00]) + Ask.get("warm", opaque: 2))
        client.settle()
        #expect(client.replies().isEmpty)
        world.lanes.release("reader")
        client.settle()
        #expect(client.replies().map(\.opaque) == [1, 2])
    }

    @Test(arguments: [
        Ask.hello([]), Ask.guest(of: "guests"), frame(0x89, key: Array("guests".utf8)),
    ])
    func sessionChangeWaitsForParkedRequests(change: [UInt8]) {
        let client = unordered()
        world.lanes.hold("reader")
        client.send(Ask.get("cold1", opaque: 1) + change + Ask.get("cold2", opaque: 3))
        client.settle()
        #expect(client.replies().isEmpty)
        world.lanes.release("reader")
        client.settle()
        let replies = client.replies()
        #expect(replies.map(\.opaque) == [1, 0, 3])
        #expect(replies.map(\.status) == [0, 0, 0])
    }

    @Test func valueEjectedBeforeResumeIsFetchedAgain() {
        for client in [world.client(of: "guests"), unordered()] {
            world.lanes.hold("reader")
            client.send(Ask.get("cold1", opaque: 1) + Ask.get("cold2", opaque: 2))
            world.lanes.release("reader")
            world.settle()
            #expect(world.eject("cold1", from: "guests"))
            client.settle()
            #expect(Set(client.replies().map(\.text)) == ["cold value 1", "cold value 2"])
            #expect(world.eject("cold1", from: "guests"))
            #expect(world.eject("cold2", from: "guests"))
        }
    }

    @Test func oneDiskReadServesAllWaitingRequests() {
        let clients = (0..<5).map { _ in unordered() }
        world.lanes.hold("reader")
        for client in clients {
            client.send(Ask.get("cold1", opaque: 1) + Ask.get("cold1", opaque: 2))
        }
        #expect(world.lanes.pending("reader") == 1)
        world.lanes.release("reader")
        world.settle()
        for client in clients {
            client.settle()
            #expect(client.replies().map(\.text) == ["cold value 1", "cold value 1"])
        }
    }

    @Test func parkedRequestsAreBounded() {
        let client = unordered()
        world.lanes.hold("reader")
        client.send((0..<200).flatMap { Ask.get("cold\($0)", opaque: UInt32($0)) })
        #expect(client.isPaused)
        #expect(!client.waiting.isEmpty)
        world.lanes.release("reader")
        client.settle()
        #expect(Set(client.replies().map(\.opaque)) == Set((0..<200).map { UInt32($0) }))
    }

    @Test func repliesOfParkedRequestsAreSentInPieces() {
        let client = unordered()
        world.lanes.hold("reader")
        client.send((0..<40).flatMap { Ask.get("large\($0)", opaque: UInt32($0)) })
        world.lanes.release("reader")
        world.settle()
        client.settle()
        let replies = client.replies()
        #expect(replies.count == 40)
        #expect(replies.allSatisfy { $0.text == ParkingTests.large })
        #expect(client.largestOutput <= Limits.repliesBytesMax + ParkingTests.large.utf8.count + 64)
    }

    @Test func closedConnectionIsNotCalledAgain() {
        let client = unordered()
        world.lanes.hold("reader")
        client.send(Ask.get("cold1") + Ask.get("cold2"))
        client.hangUp()
        world.lanes.release("reader")
        world.settle()
        client.pump()
        #expect(client.received.isEmpty)
    }

    @Test func bucketFlushAnswersParkedRequestsOnce() throws {
        for client in [world.client(of: "guests"), unordered()] {
            world.lanes.hold("reader")
            client.send(Ask.get("cold1", opaque: 1) + Ask.get("warm", opaque: 2))
            try world.service.flush("guests")
            world.lanes.release("reader")
            client.settle()
            let replies = client.replies()
            #expect(Set(replies.map(\.opaque)) == [1, 2])
            #expect(replies.count == 2)
            #expect(replies.first { $0.opaque == 1 }?.status == 1)
            #expect(client.ask(Ask.get("cold3")).map(\.status) == [1])
        }
        #expect(world.trace.lines(atLeast: .error) == [])
    }

    @Test func bucketDeletionAnswersParkedRequestsAndRefusesLaterOnes() throws {
        let client = unordered()
        world.lanes.hold("reader")
        client.send(Ask.get("cold1", opaque: 1))
        try world.service.delete("guests")
        world.lanes.release("reader")
        client.settle()
        #expect(client.replies().map { [UInt32($0.status), $0.opaque] } == [[8, 1]])
        #expect(client.ask(Ask.get("warm")).map(\.status) == [8])
        #expect(world.trace.lines(atLeast: .error) == [])
    }
}
