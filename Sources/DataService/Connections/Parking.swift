internal import Bytes
internal import Seams
internal import Wire

/// The result of a request's wait.
enum Completion: Sendable {
    /// The wait is over: attempt again.
    case ready
    /// The wait failed: answer with this status and reason.
    case failed(Status, String)
    /// The pager has made room for the write: attempt again, and do not wait for room again.
    case roomMade
    /// The work itself is complete; for commands that must not run twice.
    case done
    /// SASL: the pause before a login from an address with refused ones is over.
    case admitted
    /// SASL: the password of this login is right.
    case loggedIn(Login)
    /// The prepared write is decided: answer with this outcome.
    case durable(SyncWriteOutcome, CommandPhase)
    /// The sub-document command is complete: answer with this outcome.
    ///
    /// Indirect, so that completions stay small.
    indirect case subDocument(SubDocumentEnd)

    var isReady: Bool {
        if case .ready = self { true } else { false }
    }

    var isRoomMade: Bool {
        if case .roomMade = self { true } else { false }
    }

    /// Turns `ready` into `roomMade`, for a request that already had room made for it.
    static func last(
        _ done: @escaping @Sendable (Completion) -> Void
    ) -> @Sendable (Completion) -> Void {
        { completion in
            if case .ready = completion { done(.roomMade) } else { done(completion) }
        }
    }
}

/// A request that waits while later ones are executed (unordered execution).
struct Parked {
    let ticket: UInt64
    /// A copy of the whole frame, since the receive buffer is reused.
    let frame: [UInt8]
    let wait: RequestWait
}

/// The results that other lanes deliver for waiting requests.
final class Mailbox: Sendable {
    /// The result for the request with a ticket.
    struct WorkResult: Sendable {
        let ticket: UInt64
        let completion: Completion
    }

    private let results = Guarded<[WorkResult]>([])
    private let port: any ConnectionPort

    init(port: any ConnectionPort) {
        self.port = port
    }

    func put(_ completion: Completion, ticket: UInt64) {
        results.withLock { $0.append(WorkResult(ticket: ticket, completion: completion)) }
        port.wake()
    }

    func takeAll() -> [WorkResult] {
        results.withLock { exchange(&$0, with: []) }
    }
}
