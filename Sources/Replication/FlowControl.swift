/// How much a producer may send on one connection before it is acknowledged.
package struct FlowWindow: Hashable, Sendable {
    /// The consumer's buffer size; nil for no limit, if the consumer did not announce one.
    package var bytesMax: Int?
    /// Sent and not acknowledged: headers and bodies of all stream messages.
    package private(set) var outstanding = 0
    /// Granted to reads that have no result yet.
    package private(set) var reserved = 0

    package init(bytesMax: Int? = nil) { self.bytesMax = bytesMax }

    /// The bytes that may be sent; the last message may exceed them, because messages are not
    /// split.
    package var room: Int { bytesMax.map { max($0 - outstanding - reserved, 0) } ?? .max }

    /// Withholds room from other streams while a read for one stream is under way: its result is
    /// sent whatever room there is then.
    package mutating func reserve(_ bytes: Int) { reserved += bytes }

    /// Ends a reservation: its read has a result, or none is needed.
    ///
    /// A window that replaced another has no reservations of the other's streams.
    package mutating func release(_ bytes: Int) { reserved = max(reserved - bytes, 0) }

    package mutating func sent(_ bytes: Int) { outstanding += bytes }

    /// Subtracts acknowledged bytes; false if the consumer acknowledged more than was sent.
    package mutating func acknowledged(_ bytes: Int) -> Bool {
        guard bytes <= outstanding else {
            outstanding = 0
            return false
        }
        outstanding -= bytes
        return true
    }
}

/// The bytes that a consumer has applied and not acknowledged.
///
/// Bytes count when their message was applied, not when it was received, so messages that wait for
/// memory or disk keep the producer's window closed.
package struct FlowDebt: Hashable, Sendable {
    package let bytesMax: Int
    package private(set) var bytes = 0

    package init(bytesMax: Int) { self.bytesMax = bytesMax }

    /// Counts an applied message.
    ///
    /// - Returns: The bytes to acknowledge now; nil while they are less than half a buffer.
    package mutating func applied(_ count: Int) -> UInt32? {
        bytes += count
        guard bytes * 2 >= bytesMax else { return nil }
        return takeAll()
    }

    /// Returns and resets the unacknowledged bytes, when no more messages wait; nil if there are
    /// none.
    package mutating func takeAll() -> UInt32? {
        guard bytes > 0 else { return nil }
        defer { bytes = 0 }
        return UInt32(clamping: bytes)
    }
}

/// Decides when a producer sends a DCP no-op and when it closes a connection without an answer.
package struct NoopPulse: Hashable, Sendable {
    package enum Step: Hashable, Sendable {
        /// Call `step` again after this many nanoseconds.
        case wait(UInt64)
        case send
        /// No answer for a whole interval.
        case giveUp
    }

    package var intervalNanoseconds: UInt64
    private var sentAt: UInt64
    private var isAnswered = true

    package init(intervalNanoseconds: UInt64, now: UInt64) {
        self.intervalNanoseconds = intervalNanoseconds
        sentAt = now
    }

    /// The step to carry out at `now`; a returned `send` counts as sent.
    package mutating func step(_ now: UInt64) -> Step {
        let age = now &- sentAt
        guard age >= intervalNanoseconds else { return .wait(intervalNanoseconds - age) }
        guard isAnswered else { return .giveUp }
        isAnswered = false
        sentAt = now
        return .send
    }

    package mutating func answered() { isAnswered = true }

    /// Gives a sent no-op the whole interval again, as its answer cannot be read at `now`.
    package mutating func postponeEnd(_ now: UInt64) {
        if !isAnswered { sentAt = now }
    }
}
