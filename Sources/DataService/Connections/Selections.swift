internal import Bytes
internal import Seams
internal import Vocabulary

/// The number of connections that have selected a bucket; updated on selection, not per request.
final class Selections: Sendable {
    private let word = SharedWord.allocated()

    deinit { word.address.deallocate() }

    var count: UInt64 { word.load() }

    func add(_ amount: Int) { word.add(amount) }
}

extension Connection {
    /// Counts the turn's bytes for the bucket that is selected at its end.
    ///
    /// Answers under a lease that has ended are discarded: reads may be stale, and writes may be
    /// lost.
    func endTurn(_ progress: ReceiveProgress) -> ReceiveProgress {
        if isBoundByLease {
            isBoundByLease = false
            if !service.lease.holds(service.environment.time) {
                output.removeAll()
                context.tally.removeAll { _, _ in }
                return ReceiveProgress(consumed: progress.consumed, next: .close)
            }
        }
        recordTally { bucket }
        if let traffic {
            traffic.count(.bytesRead, by: progress.consumed)
            traffic.count(.bytesWritten, by: output.count)
        }
        guard access.isStranger else { return progress }
        var progress = progress
        progress.isStranger = true
        return progress
    }

    func recordSelection(_ before: OpenBucket?) {
        guard before !== bucket else { return }
        // The turn's commands so far are the bucket's before.
        recordTally { before }
        traffic = bucket?.counters.row(context.row)
        access.revision = 0
        before?.selections.add(-1)
        bucket?.selections.add(1)
        // The streams of a deleted bucket end with a message of their own.
        if pushes.isStreaming, before?.isRetired == false { endSender() }
    }
}
