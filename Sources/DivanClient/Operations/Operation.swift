internal import Seams
internal import Vocabulary
internal import Wire

/// One operation from the call to its result, over as many attempts as it takes.
///
/// - Belongs to the client's lane.
/// - `complete` is called exactly once, by `ClientCore.finish`.
final class Operation {
    /// Where it is.
    enum Stage {
        /// No map says where to go. Can become: waiting, flying, over.
        case unrouted
        /// Its node takes nothing yet. Can become: unrouted, flying, over.
        case waiting(ClusterNode)
        /// Sent. Can become: resting, over; a read also all before.
        case flying(ClusterNode, ticket: UInt64)
        /// Waits before it tries again. Can become: all above, over.
        case resting(turn: UInt64, forMap: Bool)
        case over
    }

    /// Success as it came from a node.
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
    /// Waits so far under the map it uses.
    var rests = 0
    /// How many maps were taken when it was last routed.
    var mapChanges = -1
    var route: KeyRouter.Route?
    /// The node that said "not mine" under the map it uses.
    var refusedBy: SocketAddress?
    /// Of the last answer.
    var status: UInt16?
    /// What went wrong last, in words.
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

    /// The error that ends it, with all that was tried.
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
        return ClientError(
            code,
            text,
            vBucket: route?.vBucket,
            node: route?.node,
            attempts: attempts,
            status: status
        )
    }

    private static func words(_ code: ClientError.Code) -> String {
        switch code {
        case .notFound: "there is no such document"
        case .exists: "the document is there already, or has another CAS"
        case .locked: "the document is locked"
        case .notLocked: "the document is not locked"
        case .tooBig: "the value is too big"
        case .notANumber: "the value is not a number"
        case .durabilityImpossible: "too few nodes have a copy for this durability"
        case .durabilityUnsupported: "the bucket does not offer this durability"
        case .durableWriteInProgress: "another durable write of the document did not end"
        case .historyChanged: "the vBucket's history is another one now"
        case .unsupported: "the server cannot do this"
        case .refused: "the server refused"
        case .temporaryFailure: "the server asked to try later until the deadline"
        case .ambiguous: "the write left and its outcome is unknown"
        case .authentication: "the server did not let us in"
        case .noBucket: "the bucket is not there"
        case .unreachable: "no node that could answer was reached until the deadline"
        case .deadline: "not done by the deadline"
        case .overloaded: "too much is under way in this client"
        case .closed: "the client was closed"
        case .invalid: "the request makes no sense"
        }
    }
}
