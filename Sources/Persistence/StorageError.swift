internal import Seams
package import Vocabulary

/// A failed storage operation: a code that callers react to, and a sentence for the operator.
package struct StorageError: Error, Hashable, Sendable, CustomStringConvertible {
    /// A case exists only if some caller reacts to it differently.
    package enum Code: Hashable, Sendable {
        /// No disk space, or no file descriptor. Nothing changed: retry the same batch once there
        /// is.
        case full
        /// A read, write or fsync failed. The next call reopens the file.
        case failed
        /// The stored bytes are invalid. `damage` lists the lost seqnos if one block is affected.
        case damaged
        /// The file's permissions do not allow the operation.
        case denied
        /// A required file does not exist.
        case missing
        /// The file belongs to another bucket, lane or program.
        case foreign
        /// Another version of Divan wrote the file.
        case otherFormat
        /// Another process holds the file's write lock: retry.
        case busy
        /// The bucket was flushed or deleted, or the vBucket dropped, meanwhile: discard the batch
        /// or scan.
        case gone
        /// The lane refuses every call until `BucketStore.recreate`.
        case quarantined
    }

    package let code: Code
    /// A sentence for an operator.
    package let description: String
    /// The unreadable block, if the error concerns exactly one; otherwise nil.
    package let damage: BlockDamage?

    package init(_ code: Code, _ description: String, damage: BlockDamage? = nil) {
        self.code = code
        self.description = description
        self.damage = damage
    }

    init(_ error: DiskError) {
        let code: Code =
            switch error.code {
            case .full: .full
            case .denied: .denied
            case .missing, .notADirectory: .missing
            case .failed: .failed
            }
        self.init(code, error.description)
    }
}

/// An unreadable block and the documents it held, as far as its readable parts tell.
package struct BlockDamage: Hashable, Sendable {
    /// A range of seqnos of one vBucket, both bounds included.
    package struct Run: Hashable, Sendable {
        package let vBucket: VBucketID
        package let first: Seqno
        package let last: Seqno
    }

    package let lane: Int
    package let block: UInt64
    /// Empty if the block's outline is unreadable too.
    package let runs: [Run]
}

/// Calls the disk seam and converts its errors to `StorageError`.
func storage<Result>(
    _ body: () throws(DiskError) -> Result
) throws(StorageError) -> Result {
    do {
        return try body()
    } catch {
        throw StorageError(error)
    }
}

extension BlockDamage.Run {
    init(_ run: BlockRun) {
        self.init(
            vBucket: VBucketID(run.vBucket),
            first: Seqno(run.first),
            last: Seqno(run.last)
        )
    }
}
