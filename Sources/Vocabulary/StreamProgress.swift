/// How far a step of a stream came.
package enum StreamProgress: Hashable, Sendable {
    /// Step again.
    case again
    /// No work, unless the stream was woken since the step began.
    case asleep
    /// The stream has a message, but no credit for it.
    case awaitsCredit
    /// The last message was encoded.
    case over
}
