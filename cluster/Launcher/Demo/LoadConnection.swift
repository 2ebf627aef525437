internal import Bytes
internal import Foundation

/// One connection of the load test: what is to go out, what came in, what is on its way.
///
/// Answers come in the order of the requests, so a queue of those, with the time of each, is enough.
final class LoadConnection {
    enum Kind {
        case read
        case write
    }

    private let client: MemcachedClient
    private let outgoing = ByteWriter(capacity: 64 << 10)
    private let incoming = ByteWriter(capacity: 256 << 10)
    private var onTheirWay: [(kind: Kind, since: UInt64)] = []
    private static let receiveSize = 128 << 10

    init(client: MemcachedClient) {
        self.client = client
    }

    var descriptor: Int32 { client.socket.descriptor }
    var hasMoreToSend: Bool { outgoing.count > 0 }

    func add(_ frame: [UInt8], _ kind: Kind, at now: UInt64) {
        outgoing.append(frame)
        onTheirWay.append((kind, now))
    }

    /// Sends what the system takes at once.
    func flush() throws {
        guard hasMoreToSend else { return }
        let flags = Int32(MSG_NOSIGNAL) | Int32(MSG_DONTWAIT)
        let sent = send(descriptor, outgoing.view.start, outgoing.count, flags)
        if sent < 0, errno != EAGAIN { throw SocketError("cannot send: \(systemError())") }
        outgoing.removeFirst(max(0, sent))
    }

    /// Takes in what has come and says how many answers that completed.
    func receive(at now: UInt64, into result: inout LoadResult) throws -> Int {
        let before = incoming.count
        let room = incoming.claim(LoadConnection.receiveSize)
        let flags = Int32(MSG_DONTWAIT)
        let received = recv(descriptor, room, LoadConnection.receiveSize, flags)
        incoming.truncate(to: before + max(0, received))
        if received < 0, errno == EAGAIN { return 0 }
        guard received > 0 else { throw SocketError("the node ended the connection") }

        var taken = 0
        var answers = 0
        var rest = incoming.view
        while let length = try MemcachedClient.frameLength(in: rest) {
            let status = rest.bigEndian(at: 6, as: UInt16.self)
            let request = onTheirWay[answers]
            result.record(request.kind, status: status, nanoseconds: now - request.since)
            taken += length
            answers += 1
            rest = rest.dropFirst(length)
        }
        incoming.removeFirst(taken)
        onTheirWay.removeFirst(answers)
        return answers
    }
}
