import Testing
import Vocabulary
import Wire

/// The table of the services that nodes have for each other.
@Suite struct NodeServiceTests {
    private struct Expected {
        let number: UInt8
        let connection: NodeService.Connection
        var isUrgent = false
        let messageBytesMax: Int
    }

    private static let table: [NodeService: Expected] = [
        .messages: .init(
            number: 1,
            connection: .main,
            isUrgent: true,
            messageBytesMax: NodeService.callBytesMax
        ),
        .bulkMessages: .init(
            number: 2,
            connection: .main,
            messageBytesMax: NodeService.callBytesMax
        ),
        .calls: .init(
            number: 3,
            connection: .main,
            isUrgent: true,
            messageBytesMax: NodeService.callBytesMax
        ),
        // Any process that reaches the peer port can send one of these.
        .join: .init(number: 4, connection: .join, messageBytesMax: 1 << 20),
        .epoch: .init(number: 5, connection: .epoch, messageBytesMax: NodeService.callBytesMax),
        .copies: .init(number: 6, connection: .bulk, messageBytesMax: 32 << 20),
        .views: .init(number: 7, connection: .main, messageBytesMax: 40 << 20),
        .feeds: .init(number: 8, connection: .bulk, messageBytesMax: 32 << 20),
    ]

    @Test(arguments: NodeService.allCases)
    func servicesHaveTheRowsOfTheTable(_ service: NodeService) throws {
        let expected = try #require(NodeServiceTests.table[service])
        let row = service.row
        #expect(service.rawValue == expected.number)
        #expect(row.connection == expected.connection && row.isUrgent == expected.isUrgent)
        #expect(row.messageBytesMax == expected.messageBytesMax)
        // A frame is the most by which a side exceeds the window.
        #expect(row.windowBytes >= LinkFrame.payloadBytesMax)
    }
}
