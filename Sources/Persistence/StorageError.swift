internal import Seams
package import Vocabulary

/// Why storage did not do what it was asked, as one sentence and a code to react to.
package struct StorageError: Error, Hashable, Sendable, CustomStringConvertible {
    /// A code of its own only where some caller does something of its own about it.
    package enum Code: Hashable, Sendable {
        /// No room, or no file descriptor. Nothing changed: try the same batch again when there is
        /// some.
        case full
        /// A read, write or fsync failed. The file is opened afresh by the next attempt.
        case failed
        /// Bytes are not what was written. `damage` names what is lost, where it is known.
        case damaged
        /// Permissions.
        case denied
        /// A file that must be there is not.
        case missing
        /// The file belongs to another bucket, lane or program.
        case foreign
        /// The file was written by a later Divan.
        case newer
        /// Another process holds the file's write lock: try again.
        case busy
        /// The generation was flushed or deleted meanwhile: drop the batch.
        case gone
        /// The lane is closed to everybody until it is made anew.
        case quarantined
    }

    package let code: Code
    /// A sentence for an operator.
    package let description: String
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

/// What a block that cannot be read held, as far as anybody knows.
package struct BlockDamage: Hashable, Sendable {
    package struct Run: Hashable, Sendable {
        package let vBucket: VBucketID
        package let first: Seqno
        package let last: Seqno
    }

    package let lane: Int
    package let block: UInt64
    package let runs: [Run]
}

/// Calls into the disk seam with its errors turned into ours.
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
