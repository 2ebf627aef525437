internal import Bytes
internal import Indexing

/// Reduces ranges, or their groups, by a function of the author.
final class CustomScan: QueryScan {
    /// Leaves, nodes or groups that are read between two turns of the lane; also ranges.
    private static let readsMax = 64

    private lazy var settings = input.groups
    private var current: (keyNumber: Int, reduce: CustomReduce)?

    override func step(_ batch: inout RowBatchWriter) throws(IndexError) -> ScanStep {
        let reads = CustomScan.readsMax
        var ended = 0
        while !batch.isFull, ended < reads {
            guard left > 0, let (keyNumber, reduce) = current ?? begin() else { return .done }
            switch try reduce.next(readsMax: reads) {
            case .paused: return .paused
            case .needs(let calls): return .calls(calls)
            case .group(let prefix, let result):
                let key = ByteWriter()
                try input.appendKey(ofGroup: prefix, to: key)
                result.withUnsafeBytes { value in
                    input.append(keyNumber, key.view, value: ByteView(value), to: &batch)
                }
                left -= 1
            case .done:
                current = nil
                ended += 1
            }
        }
        return .paused
    }

    override func supply(_ results: [[UInt8]]) { current?.reduce.supply(results) }

    override func removeComputed() -> [ComputedPartial] {
        guard let reduce = current?.reduce, !reduce.computed.isEmpty else { return [] }
        return exchange(&reduce.computed, with: [])
    }

    /// Begins the next range; nil after the last.
    private func begin() -> (keyNumber: Int, reduce: CustomReduce)? {
        guard let (keyNumber, range) = ranges.popLast() else { return nil }
        let reduce = CustomReduce(
            input.tree,
            range,
            groups: settings,
            mask: input.mask,
            partials: input.source
        )
        current = (keyNumber, reduce)
        return current
    }
}
