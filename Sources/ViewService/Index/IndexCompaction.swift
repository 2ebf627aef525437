internal import Indexing
internal import Persistence
internal import Vocabulary

/// The course of the compaction of one index.
///
/// Both trees are copied into full nodes of the same file, one commit replaces the old trees by the
/// copies, and the old trees' pages return to the file system. A crash at any instant leaves the old
/// trees or the new ones: what else it leaves is noted in the file (`UnfinishedCompaction`) and removed when
/// the file is opened.
struct IndexCompaction {
    enum Phase {
        /// Removes the nodes and values of a copy that was not completed. Next: rows, or the end.
        case discarding(continues: Bool)
        /// Copies the rows. Next: documents; after a full disk or a cancellation, discarding.
        case rows(TreeCopy)
        /// Copies the documents' entries. Next: removing; discarding, as above.
        case documents(TreeCopy, rows: TreeRoot)
        /// Removes the old trees: what has lower numbers. Next: releasing.
        case removing(below: IndexNodeID, IndexValueID)
        /// Removes the runs of a first build that has ended. Next: releasing.
        case removingRuns
        /// Returns free pages to the file system, of which there were so many. Next: the end.
        case releasing(free: Int)
    }

    var phase: Phase
    /// Whether it only removes the runs of a first build, and frees their pages.
    let removesRuns: Bool

    /// A compaction that begins, or the removal of old runs.
    init(removesRuns: Bool = false) {
        self.removesRuns = removesRuns
        phase = removesRuns ? .removingRuns : .discarding(continues: true)
    }

    /// The end of one that was interrupted.
    init(_ unfinishedCompaction: UnfinishedCompaction) {
        removesRuns = false
        switch unfinishedCompaction {
        case .copy: phase = .discarding(continues: false)
        case .trees(let node, let value): phase = .removing(below: node, value)
        }
    }

    /// Whether commits of rows wait: the trees must not change while they are copied.
    var holdsCommits: Bool {
        switch phase {
        case .rows, .documents: true
        case .discarding, .removing, .removingRuns, .releasing: false
        }
    }

    /// The rows and documents' entries that are copied; the greatest number once all are.
    var copied: UInt64 {
        switch phase {
        case .discarding: 0
        case .rows(let copy): copy.rows
        case .documents(let copy, let rows): rows.rows + copy.rows
        case .removing, .removingRuns, .releasing: .max
        }
    }

    /// Aborts the copy; the steps behind it continue.
    mutating func cancel() {
        switch phase {
        case .discarding, .rows, .documents: phase = .discarding(continues: false)
        case .removing, .removingRuns, .releasing: break
        }
    }
}
