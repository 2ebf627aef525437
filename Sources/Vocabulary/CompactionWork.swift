package import Bytes

/// How far a requested compaction of a bucket's documents is, in versions of documents.
///
/// - It runs as long as there is a value, also when all versions are done: free pages then return to
///   the file system.
/// - Changes that arrive meanwhile can raise `total`.
package struct CompactionWork: Hashable, Sendable {
    /// Versions that were rewritten or removed.
    package var done: UInt64
    /// These, and those that are left to be read.
    package var total: UInt64

    package init(done: UInt64, total: UInt64) {
        self.done = done
        self.total = total
    }
}

extension CompactionWork: CodedFields {
    package init() { self.init(done: 0, total: 0) }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&done, "done versions")
        try coder.field(&total, "versions")
    }
}
