package import Engine

/// A read of a vBucket's versions from disk, without its lock, that fills in what memory lacks.
///
/// If the vBucket is emptied during the read, what was read belongs to another history: its seqnos
/// are those of other versions in memory. Then nothing is filled in.
///
/// - Created before the read. The disk is erased before memory is emptied, so the disk never has an
///   older history than memory.
package struct DiskReading: Sendable {
    private let vBucket: VBucket
    private let emptyings: UInt64

    package init(of vBucket: VBucket) {
        self.vBucket = vBucket
        emptyings = vBucket.withCore { $0.emptyings }
    }

    /// Calls `body` under the vBucket's lock; returns nil if the vBucket was emptied, without a
    /// call.
    package func fill<Result>(_ body: (inout VBucketCore) -> Result) -> Result? {
        vBucket.withCore { core in
            core.emptyings == emptyings ? body(&core) : nil
        }
    }
}
