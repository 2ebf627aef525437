internal import Bytes
internal import Seams

/// How many connections have selected a bucket; counted when they select, not when they ask.
final class Selections: Sendable {
    private let word: SharedWord

    init() {
        let memory = UnsafeMutablePointer<UInt64>.allocate(capacity: 1)
        memory.initialize(to: 0)
        word = SharedWord(at: memory)
    }

    deinit { word.address.deallocate() }

    var count: UInt64 { word.load() }

    func add(_ amount: Int) { word.add(amount) }
}

extension Connection {
    /// Counts what the turn took and gave, for the bucket that is selected at its end.
    ///
    /// Answers that were made under a lease which is over by now are nobody's to see: what was read
    /// may be old, and what was written may be lost.
    func endTurn(_ progress: ReceiveProgress) -> ReceiveProgress {
        if isBoundByLease {
            isBoundByLease = false
            if !service.lease.holds(service.environment.time) {
                output.removeAll()
                return ReceiveProgress(consumed: progress.consumed, next: .close)
            }
        }
        if let counters = bucket?.counters {
            counters.count(.bytesRead, row: context.row, by: progress.consumed)
            counters.count(.bytesWritten, row: context.row, by: output.count)
        }
        return progress
    }

    func noteSelection(_ before: OpenBucket?) {
        guard before !== bucket else { return }
        before?.selections.add(-1)
        bucket?.selections.add(1)
    }
}
