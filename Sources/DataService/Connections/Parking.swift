internal import Bytes
internal import Seams
internal import Wire

/// How something that a request waited for came out.
enum Completion: Sendable {
    /// Ask again: what was missing is there.
    case ready
    /// It will not come: the answer to give, and a sentence of why.
    case failed(Status, String)
    /// Ask again, for the last time: there is room for the write.
    case roomMade
    /// The work itself is done; `ready` for commands that are not to run twice.
    case done
    /// The write itself was made, and this became of it.
    case durable(DurableEnd)

    var isRoomMade: Bool {
        if case .roomMade = self { true } else { false }
    }

    /// Passes on that something is there to a request that already had room made for it.
    static func last(
        _ done: @escaping @Sendable (Completion) -> Void
    ) -> @Sendable (Completion) -> Void {
        { completion in
            if case .ready = completion { done(.roomMade) } else { done(completion) }
        }
    }
}

/// A request that waits while others on its connection go on (unordered execution).
struct Parked {
    let ticket: UInt64
    /// The whole frame, since the receive buffer moves on.
    let frame: [UInt8]
    /// Monotonic nanoseconds of when it came, where the client wants to know how long it took.
    let start: UInt64
}

/// Where other lanes leave what became of parked requests.
final class Mailbox: Sendable {
    /// What became of the request with a ticket.
    struct Letter: Sendable {
        let ticket: UInt64
        let completion: Completion
    }

    private let letters = Guarded<[Letter]>([])
    private let port: any ConnectionPort

    init(port: any ConnectionPort) {
        self.port = port
    }

    func put(_ completion: Completion, ticket: UInt64) {
        letters.withLock { $0.append(Letter(ticket: ticket, completion: completion)) }
        port.wake()
    }

    func takeAll() -> [Letter] {
        letters.withLock { list in
            defer { list = [] }
            return list
        }
    }
}
