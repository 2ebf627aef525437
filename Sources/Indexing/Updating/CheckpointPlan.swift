/// When the write-ahead log of an index is copied into its file, and when commits wait for it.
///
/// A checkpoint runs beside commits. The log begins again from its start only if a checkpoint has
/// copied all of it, and a checkpoint never does so while commits follow each other without a pause,
/// as those of a build do. So commits wait for a checkpoint once the log is large.
///
/// - Commits wait for a checkpoint that has begun behind the last commit; one that was running is
///   followed by another.
/// - If a reader of an old snapshot keeps such a checkpoint from copying everything, commits continue,
///   and wait again only when the log has grown by as much again.
package struct CheckpointPlan: Sendable {
    /// Sizes in pages; tests may set others.
    package struct Limits: Hashable, Sendable {
        /// A checkpoint begins when the log is larger.
        package var pagesMax = 1_000
        /// Commits wait for a checkpoint from this size on: 64 MiB.
        package var heldPagesMin = (64 << 20) / 4_096

        package init() {}
    }

    private let limits: Limits
    /// Whether the log is being copied.
    package private(set) var isRunning = false
    /// Whether another checkpoint follows the one that is running.
    private var needsAnother = false
    /// The size from which on commits wait.
    private var heldFrom: Int
    /// The size after the last commit.
    private var pages = 0
    /// Whether commits wait for the checkpoint that is running or the one that follows it.
    package private(set) var holdsCommits = false

    package init(_ limits: Limits = Limits()) {
        self.limits = limits
        heldFrom = limits.heldPagesMin
    }

    /// A commit has returned.
    ///
    /// - Parameter walPages: The size of the log; 0 if nothing was committed since a complete
    ///   checkpoint.
    /// - Returns: Whether a checkpoint begins now.
    package mutating func committed(walPages: Int) -> Bool {
        guard walPages > 0 else { return false }
        // The log has begun again.
        if walPages < pages { heldFrom = limits.heldPagesMin }
        pages = walPages
        if walPages >= heldFrom {
            holdsCommits = true
            return request()
        }
        guard walPages > limits.pagesMax, !isRunning else { return false }
        return request()
    }

    /// Everything that is in the log now is to be copied.
    ///
    /// - Returns: Whether a checkpoint begins now; otherwise it follows the one that is running.
    package mutating func request() -> Bool {
        needsAnother = isRunning
        guard !isRunning else { return false }
        isRunning = true
        return true
    }

    /// A checkpoint has returned.
    ///
    /// - Returns: Whether another begins now.
    package mutating func ended() -> Bool {
        isRunning = false
        guard needsAnother else {
            release()
            return false
        }
        return request()
    }

    /// A checkpoint has failed, for example because the disk is full: another follows a later commit.
    package mutating func failed() {
        isRunning = false
        release()
    }

    private mutating func release() {
        guard holdsCommits else { return }
        holdsCommits = false
        heldFrom = pages + limits.heldPagesMin
    }
}
