internal import Vocabulary

/// How much a producer may send on one connection before it is acknowledged.
package struct FlowWindow: Hashable, Sendable {
    /// What the consumer buffers; nil where it did not say, which is no limit.
    package var bytesMax: Int?
    /// Sent and not acknowledged: headers and bodies of all stream messages.
    package private(set) var outstanding = 0

    package init(bytesMax: Int? = nil) { self.bytesMax = bytesMax }

    /// How much may be sent; one message may go beyond it, as none is ever cut.
    package var room: Int { bytesMax.map { max($0 - outstanding, 0) } ?? .max }

    package mutating func sent(_ bytes: Int) { outstanding += bytes }

    /// False where more is acknowledged than was sent: the consumer cannot count.
    package mutating func acknowledged(_ bytes: Int) -> Bool {
        guard bytes <= outstanding else {
            outstanding = 0
            return false
        }
        outstanding -= bytes
        return true
    }
}

/// How much a consumer has taken without saying so.
///
/// Bytes count once their message was applied, not when it came: what waits for memory or disk
/// holds the producer back.
package struct FlowDebt: Hashable, Sendable {
    package let bytesMax: Int
    package private(set) var bytes = 0

    package init(bytesMax: Int) { self.bytesMax = bytesMax }

    /// Notes a message that was applied; returns what is to be acknowledged now, half a buffer at a
    /// time.
    package mutating func applied(_ count: Int) -> UInt32? {
        bytes += count
        guard bytes * 2 >= bytesMax else { return nil }
        return takeAll()
    }

    /// What is left to be acknowledged, where nothing more comes for now.
    package mutating func takeAll() -> UInt32? {
        guard bytes > 0 else { return nil }
        defer { bytes = 0 }
        return UInt32(clamping: bytes)
    }
}

/// When a producer asks whether the other side still is there, and when it gives it up.
package struct NoopPulse: Hashable, Sendable {
    package enum Step: Hashable, Sendable {
        /// Look again in so many nanoseconds.
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

    /// What is to be done at `now`; `send` counts as done.
    package mutating func step(_ now: UInt64) -> Step {
        let age = now &- sentAt
        guard age >= intervalNanoseconds else { return .wait(intervalNanoseconds - age) }
        guard isAnswered else { return .giveUp }
        isAnswered = false
        sentAt = now
        return .send
    }

    package mutating func answered() { isAnswered = true }
}
