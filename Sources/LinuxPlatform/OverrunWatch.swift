package import Bytes
internal import CLinux
internal import Glibc

/// Ends this process when a step of its work exceeds its CPU time.
///
/// For work that nothing else can interrupt: foreign code in the middle of a regular expression. A
/// timer's signal compares the number of the step 20 times a second of CPU time.
///
/// - One thread creates and uses it, and does the work.
package struct OverrunWatch {
    /// Bytes of the longest last message.
    package static let messageBytesMax = 64

    /// `descriptor` gets the last message; `step` is the number that the work changes at each step.
    ///
    /// - Returns: Nil if the system refuses a timer.
    package init?(descriptor: Int32, step: UnsafePointer<UInt32>) {
        guard divan_overrun_start(descriptor, step) == 0 else { return nil }
    }

    /// Begins work whose steps may use `milliseconds` of CPU time each.
    ///
    /// If a step exceeds that, `message` is written, with the step's number in big-endian order at
    /// `offset`, and the process ends with status 3.
    package func begin(message: ByteView, offset: Int, milliseconds: UInt32) {
        precondition(
            message.count <= OverrunWatch.messageBytesMax && offset + 4 <= message.count,
            "a last message is short and has room for the number"
        )
        divan_overrun_begin(message.start, message.count, offset, milliseconds)
    }

    /// Ends the work.
    package func end() { divan_overrun_end() }
}
