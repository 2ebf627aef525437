import DataService
import Engine
import Seams
import TestWorld
import Testing
import Vocabulary
import Wire

/// The byte stream of one connection: limits, order of answers, skipped frames and errors.
@Suite struct StreamTests {
    let world = TestWorld()

    init() throws {
        try world.service.open(TestWorld.settings("guests"))
    }

    @Test func pipelineCutAnywhereGetsSameAnswers() {
        var requests: [UInt8] = []
        for index in 0..<40 {
            requests += Ask.set("key\(index)", "value \(index)", opaque: UInt32(2 * index))
            requests += Ask.get("key\(index)", opaque: UInt32(2 * index + 1))
        }
        for cut in [1, 7, 23, 24, 25, 100, requests.count] {
            let client = world.client(of: "guests")
            var rest = requests[...]
            while !rest.isEmpty {
                client.send(Array(rest.prefix(cut)))
                rest = rest.dropFirst(cut)
            }
            let replies = client.replies()
            #expect(replies.map(\.opaque) == (0..<80).map { UInt32($0) })
            #expect(replies.allSatisfy { $0.status == 0 })
            let values = replies.filter { $0.opcode == 0 }.map(\.text)
            #expect(values == (0..<40).map { "value \($0)" })
        }
    }

    @Test func invalidMagicClosesWithoutAnswer() {
        let client = world.client(of: "guests")
        client.send(Ask.get("a", opaque: 1) + [0x47, 0x45, 0x54])
        #expect(client.isClosed)
        #expect(client.replies().map(\.status) == [1])
    }

    @Test func keyLongerThanBodyIsRefusedAndCloses() {
        let client = world.client(of: "guests")
        var bytes = frame(.get, key: Array("abc".utf8), opaque: 9)
        bytes[11] = 2
        client.send(bytes)
        #expect(client.isClosed)
        #expect(client.replies().map { [UInt32($0.status), $0.opaque] } == [[4, 9]])
    }

    @Test func frameBeforeLoginIsLimitedTo4KiB() {
        let small = Client(world)
        let key = Array("{}".utf8)
        small.send(frame(.hello, key: key, value: [UInt8](repeating: 0, count: 4_096 - 26)))
        #expect(small.replies().map(\.status) == [0])
        let large = Client(world)
        let whole = frame(.hello, key: key, value: [UInt8](repeating: 0, count: 4_096 - 24))
        large.send(Array(whole.prefix(24)))
        #expect(large.isClosed)
        #expect(large.replies().map(\.status) == [4])
    }

    @Test func frameAfterLoginIsLimitedByValueSize() {
        let client = world.client(of: "guests")
        var header = frame(.set, extras: big(UInt64(0)))
        header.replaceSubrange(8..<12, with: big(UInt32(30 << 20)))
        client.send(Array(header.prefix(24)))
        #expect(client.isClosed)
        #expect(client.replies().map(\.status) == [4])
    }

    @Test func valueOver20MiBIsSkippedAndStreamContinues() {
        let client = world.client(of: "guests")
        var request = Ask.set("big", "", opaque: 5)
        let valueCount = (20 << 20) + 1
        request.replaceSubrange(8..<12, with: big(UInt32(8 + 3 + valueCount)))
        client.send(Ask.set("before", "x", opaque: 4) + request)
        #expect(client.replies().map { [UInt32($0.status), $0.opaque] } == [[0, 4], [3, 5]])
        let piece = [UInt8](repeating: 0x78, count: 100_000)
        var left = valueCount
        while left > 0 {
            let count = min(left, piece.count)
            let isLast = count == left
            client.send(
                Array(piece.prefix(count)) + (isLast ? Ask.get("before", opaque: 6) : [])
            )
            left -= count
            #expect(client.waiting.isEmpty)
            if client.isClosed { break }
        }
        #expect(client.replies().map { [UInt32($0.status), $0.opaque] } == [[0, 6]])
        #expect(client.ask(Ask.get("big")).map(\.status) == [1])
    }

    @Test func value20MiBLongIsReadBackComplete() {
        let client = world.client(of: "guests")
        let value = String(repeating: "0123456789abcdef", count: (20 << 20) / 16)
        #expect(client.ask(Ask.set("big", value)).map(\.status) == [0])
        #expect(client.ask(Ask.get("big")).map(\.text) == [value])
    }

    @Test func manyLargeRepliesAreSentInPieces() {
        let client = world.client(of: "guests")
        let value = String(repeating: "x", count: 100 << 10)
        #expect(client.ask(Ask.set("big", value)).map(\.status) == [0])
        client.send((0..<100).flatMap { Ask.get("big", opaque: UInt32($0)) })
        let replies = client.replies()
        #expect(replies.map(\.opaque) == (0..<100).map { UInt32($0) })
        #expect(replies.allSatisfy { $0.text == value })
        #expect(client.largestOutput <= Limits.repliesBytesMax + value.utf8.count + 64)
    }

    @Test func responsesAreIgnoredAndServerRequestCloses() {
        let client = world.client(of: "guests")
        var answer = Ask.get("a", opaque: 1)
        answer[0] = 0x81
        client.send(answer + Ask.get("a", opaque: 2))
        #expect(client.replies().map(\.opaque) == [2])
        answer[0] = 0x82
        client.send(answer + Ask.get("a", opaque: 3))
        #expect(client.isClosed)
        #expect(client.replies().isEmpty)
    }

    @Test func requestsAfterQuitAreIgnored() {
        let loud = world.client(of: "guests")
        loud.send(Ask.get("a", opaque: 1) + frame(.quit, opaque: 2) + Ask.get("a", opaque: 3))
        #expect(loud.isClosed)
        #expect(loud.replies().map(\.opaque) == [1, 2])
        let quiet = world.client(of: "guests")
        quiet.send(frame(.quitQuiet, opaque: 2) + Ask.get("a", opaque: 3))
        #expect(quiet.isClosed)
        #expect(quiet.replies().isEmpty)
    }

    @Test func connectionsAreCounted() {
        let before = world.service.connections
        let client = Client(world)
        #expect(world.service.connections == before + 1)
        client.hangUp()
        #expect(world.service.connections == before)
    }
}
