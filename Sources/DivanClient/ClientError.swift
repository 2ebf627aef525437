package import Seams
package import Vocabulary

/// The failure of an operation: a code for the program, and a sentence with the attempts.
package struct ClientError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: String, Hashable, Sendable {
        // Decided by the server.
        case notFound
        /// The document exists already, or has another CAS than the given one.
        case exists
        case locked
        case notLocked
        case tooBig
        /// The value is not a number that a counter can change.
        case notANumber
        case durabilityImpossible
        case durabilityUnsupported
        /// Another durable write of the document was in progress until the deadline.
        case durableWriteInProgress
        /// The change was lost in a failover.
        case historyChanged
        case unsupported
        case refused

        // Decided by the client.
        /// The server answered "temporary failure" until the deadline. The operation was not
        /// carried out.
        case temporaryFailure
        /// The write was sent and not answered: it may have been carried out or not.
        case ambiguous
        case authentication
        case noBucket
        /// No node that could answer was reached before the deadline. A write was not carried out.
        case unreachable
        /// The deadline passed. A write was not carried out.
        case deadline
        /// Too many operations or bytes are pending in this client.
        case overloaded
        case closed
        /// The request is invalid and was not sent.
        case invalid
    }

    package let code: Code
    package internal(set) var vBucket: VBucketID?
    /// The node of the last attempt; nil if there was none.
    package internal(set) var node: SocketAddress?
    package internal(set) var attempts = 0
    /// The status of the last answer; nil if there was none.
    package internal(set) var status: UInt16?
    /// The attempts and the last failure, as a sentence.
    package let description: String

    init(_ code: Code, _ description: String) {
        self.code = code
        self.description = description
    }

    /// Whether the operation may have been carried out despite the error.
    package var isAmbiguous: Bool { code == .ambiguous }
}
