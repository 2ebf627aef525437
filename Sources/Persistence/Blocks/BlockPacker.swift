/// Decides which documents share a block.
///
/// A vBucket with enough documents in a commit gets blocks of its own (*pure*), so that a scan of
/// that vBucket reads few other documents. All other documents share *mixed* blocks: at low write
/// rates, block count and compression then do not depend on how many vBuckets a commit touches.
/// Merging later rewrites mixed blocks as pure ones.
struct BlockPacker {
    let limits: BlockLimits
    /// Indices into the document buffer, block by block.
    private(set) var order: [UInt32] = []
    /// Ranges of `order`, one per block.
    private(set) var blocks: [Range<Int>] = []
    /// Documents of vBuckets that get no pure block.
    private var thin: [UInt32] = []

    init(limits: BlockLimits) {
        self.limits = limits
    }

    /// Adds one vBucket's documents, sorted by seqno.
    mutating func add(_ indices: some Collection<UInt32>, of documents: DocumentBuffer) {
        let bytes = indices.reduce(0) { $0 + documents.valueLength($1) }
        if indices.count >= limits.pureDocumentsMin || bytes >= limits.pureBytesMin {
            cut(indices, bytes: bytes, of: documents)
        } else {
            thin.append(contentsOf: indices)
        }
    }

    /// Packs the remaining documents into mixed blocks.
    ///
    /// The vBuckets must have been added in ascending order.
    mutating func finish(_ documents: DocumentBuffer) {
        let indices = thin
        thin.removeAll(keepingCapacity: true)
        let bytes = indices.reduce(0) { $0 + documents.valueLength($1) }
        if !indices.isEmpty { cut(indices, bytes: bytes, of: documents) }
    }

    mutating func removeAll() {
        order.removeAll(keepingCapacity: true)
        blocks.removeAll(keepingCapacity: true)
        thin.removeAll(keepingCapacity: true)
    }

    /// Cuts documents into blocks.
    ///
    /// A remainder of up to 1.5 blocks becomes one block instead of a block and a small tail; a
    /// large value gets a block of its own.
    private mutating func cut(
        _ indices: some Collection<UInt32>,
        bytes: Int,
        of documents: DocumentBuffer
    ) {
        var start = order.count
        var filled = 0
        var rest = bytes
        var restCount = indices.count
        var takesRest = false
        func mustEnd(before length: Int, at count: Int) -> Bool {
            if count == 0 { return false }
            if count >= limits.documents { return true }
            if takesRest { return false }
            return filled >= limits.rawBytes || filled + length > limits.rawBytes * 3 / 2
        }
        for index in indices {
            let length = documents.valueLength(index)
            if mustEnd(before: length, at: order.count - start) {
                blocks.append(start..<order.count)
                start = order.count
                filled = 0
            }
            if order.count == start {
                takesRest = rest <= limits.rawBytes * 3 / 2 && restCount <= limits.documents
            }
            order.append(index)
            filled += length
            rest -= length
            restCount -= 1
        }
        blocks.append(start..<order.count)
    }
}

extension DocumentBuffer {
    func valueLength(_ index: UInt32) -> Int { Int(entries[Int(index)].valueLength) }
}
