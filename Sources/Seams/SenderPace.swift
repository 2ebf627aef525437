/// Decides whether the sender of a frame makes progress while memory is held for the frame.
///
/// Received bytes are counted without a clock; `isStalled` is checked from time to time.
///
/// - Any byte is progress while memory is left.
/// - While memory is short, progress means `bytesMin` within the timeout: a sender of single bytes
///   would keep memory from other connections for hours.
package struct SenderPace: Sendable {
    /// In 30 s this is 17 kbit/s: no link that carries large values is slower.
    package static let bytesMin = 64 << 10

    private let timeoutNanoseconds: UInt64
    /// When a byte was received last, and when `bytesMin` were, as seen by `isStalled`.
    private var lastByte: UInt64?
    private var lastMinimum: UInt64 = 0
    /// Received since these times.
    private var newBytes = 0
    private var bytesTowardsMinimum = 0

    package init(timeoutNanoseconds: UInt64) {
        self.timeoutNanoseconds = timeoutNanoseconds
    }

    package mutating func received(_ count: Int) { newBytes += count }

    /// Whether the sender has made no progress for the timeout.
    ///
    /// - Parameters:
    ///   - now: Monotonic nanoseconds.
    ///   - isAwaited: Whether the node waits for this sender. While the node itself does not read,
    ///     the sender's time does not run.
    ///   - isShort: Whether memory is short.
    /// - Returns: Whether the timeout has passed without progress.
    package mutating func isStalled(at now: UInt64, isAwaited: Bool, isShort: Bool) -> Bool {
        bytesTowardsMinimum += newBytes
        if lastByte == nil || newBytes > 0 || !isAwaited { lastByte = now }
        if lastMinimum == 0 || bytesTowardsMinimum >= SenderPace.bytesMin || !isAwaited {
            lastMinimum = now
            bytesTowardsMinimum = 0
        }
        newBytes = 0
        let since = isShort ? lastMinimum : lastByte ?? now
        return now - since >= timeoutNanoseconds
    }
}
