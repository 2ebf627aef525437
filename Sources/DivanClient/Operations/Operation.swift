internal import Seams
internal import Vocabulary
internal import Wire

/// One operation, from the call to its result, over all its attempts.
///
/// - Belongs to the client's lane.
/// - `complete` is called exactly once, by `ClientCore.finish`.
final class Operation {
    /// The progress of an operation.
    enum Stage {
        /// No map names a node for it. Can become: waiting, inFlight, over.
        case unrouted
        /// Waits for its node to be connected, or to have room in its pipeline. Can become:
        /// unrouted, inFlight, over.
        case waiting(ClusterNode)
        /// Sent. Can become: backingOff, over; if it is recalled, also all above.
        case inFlight(ClusterNode, ticket: UInt64)
        /// Waits before a retry; with `forMap`, a new map ends the wait. Can become: all above,
        /// over.
        case backingOff(turn: UInt64, forMap: Bool)
        case over
    }

    /// A successful answer of a node.
    struct Reply: Sendable {
        let answer: Answer
        let vBucket: VBucketID
        let node: SocketAddress
    }

    typealias Completion = @Sendable (Result<Reply, ClientError>) -> Void

    let number: UInt64
    let request: Request
    let started: UInt64
    let deadline: UInt64
    let complete: Completion
    var stage = Stage.unrouted
    var attempts = 0
    /// Number of back-offs under the map it uses.
    var backOffs = 0
    /// The value of `ClusterMapCache.changes` when it was last routed.
    var mapChanges = -1
    var route: KeyRouter.Route?
    /// The node that answered "not my vBucket" under the map it uses.
    var refusedBy: SocketAddress?
    /// The status of the last answer.
    var status: UInt16?
    /// The last failure, as text.
    var trouble: String?

    init(
        number: UInt64,
        _ request: Request,
        started: UInt64,
        deadline: UInt64,
        complete: @escaping Completion
    ) {
        self.number = number
        self.request = request
        self.started = started
        self.deadline = deadline
        self.complete = complete
    }

    /// The operation's error, with its attempts and the last failure.
    func error(_ code: ClientError.Code) -> ClientError {
        var text = "\(request.opcode)"
        if let route { text += " of \(route.vBucket) at \(route.node)" }
        text += ": \(Operation.words(code))"
        text += attempts == 1 ? " after 1 attempt" : " after \(attempts) attempts"
        if let status, status != Status.success.rawValue {
            let name = Status(rawValue: status).map(\.name) ?? "0x" + String(status, radix: 16)
            text += "; the last answer was \(name)"
        }
        if let trouble { text += "; \(trouble)" }
        var error = ClientError(code, text)
        (error.vBucket, error.node) = (route?.vBucket, route?.node)
        (error.attempts, error.status) = (attempts, status)
        return error
    }

    private static func words(_ code: ClientError.Code) -> String {
        switch code {
        case .notFound: "there is no such document"
        case .exists: "the document exists already, or has another CAS"
        case .locked: "the document is locked"
        case .notLocked: "the document is not locked"
        case .tooBig: "the value is too big"
        case .notANumber: "the value is not a number"
        case .durabilityImpossible: "too few nodes have a copy for this durability"
        case .durabilityUnsupported: "the bucket does not offer this durability"
        case .durableWriteInProgress: "another durable write of the document is in progress"
        case .historyChanged: "the vBucket has another history now"
        case .unsupported: "the server does not support this"
        case .refused: "the server refused the operation"
        case .temporaryFailure: "the server reported a temporary failure until the deadline"
        case .ambiguous: "the write was sent and its outcome is unknown"
        case .authentication: "the server refused the login"
        case .noBucket: "there is no such bucket"
        case .unreachable: "no node that could answer was reached before the deadline"
        case .deadline: "the deadline passed"
        case .overloaded: "too many operations are pending in this client"
        case .closed: "the client was closed"
        case .invalid: "the request is invalid"
        }
    }
}
