/// Bounds how long a connection's stream requests wait for vBuckets that are being loaded.
///
/// A waiting request blocks all later ones, and clients give each of them a timeout of its own. So
/// the requests that arrive while one waits share its time. After that time requests are refused for
/// a while, in which the blocked ones are answered.
package struct LoadingWaits: Hashable, Sendable {
    /// Clients wait longer for an answer: ten seconds and more.
    package static let waitNanoseconds: UInt64 = 5_000_000_000
    /// A thousand requests are refused in much less.
    package static let refusalNanoseconds: UInt64 = 1_000_000_000

    /// When the first of the requests that share their time began to wait.
    private var start: UInt64?

    package init() {}

    /// How long a request that begins to wait at `now` may wait; nil if it has to be refused.
    package mutating func timeLeft(at now: UInt64) -> UInt64? {
        guard let start,
            now &- start < LoadingWaits.waitNanoseconds + LoadingWaits.refusalNanoseconds
        else {
            start = now
            return LoadingWaits.waitNanoseconds
        }
        let age = now &- start
        return age < LoadingWaits.waitNanoseconds ? LoadingWaits.waitNanoseconds - age : nil
    }
}
