package import Seams
package import Vocabulary

/// Why an operation has no result: a code to act on, and a sentence that says what was tried.
package struct ClientError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: String, Hashable, Sendable {
        // What the server decided.
        case notFound
        /// The document is there already, or has another CAS than the one given.
        case exists
        case locked
        case notLocked
        case tooBig
        /// The value is no number that a counter could work on.
        case notANumber
        case durabilityImpossible
        case durabilityUnsupported
        /// Another durable write of the document was under way until the deadline.
        case durableWriteInProgress
        /// The change that was asked about was lost in a failover.
        case historyChanged
        case unsupported
        case refused

        // What the way there decided.
        /// The server asked to try later until the deadline; the operation was not carried out.
        case temporaryFailure
        /// A write left and no answer came: it may have been carried out or not.
        case ambiguous
        case authentication
        case noBucket
        /// No node that could answer was reached until the deadline; a write did not happen.
        case unreachable
        /// The deadline passed; a write did not happen.
        case deadline
        /// Too much is under way in this client already.
        case overloaded
        case closed
        /// The request makes no sense: nothing was sent.
        case invalid
    }

    package let code: Code
    package let vBucket: VBucketID?
    /// The node that the last attempt went to.
    package let node: SocketAddress?
    package let attempts: Int
    /// The status that the last answer had.
    package let status: UInt16?
    /// What was tried, and why it failed last.
    package let description: String

    package init(
        _ code: Code,
        _ description: String,
        vBucket: VBucketID? = nil,
        node: SocketAddress? = nil,
        attempts: Int = 0,
        status: UInt16? = nil
    ) {
        self.code = code
        self.vBucket = vBucket
        self.node = node
        self.attempts = attempts
        self.status = status
        self.description = description
    }

    /// Whether the operation may have been carried out all the same.
    package var isAmbiguous: Bool { code == .ambiguous }
}
