internal import Bytes
internal import Indexing
internal import Seams
internal import Vocabulary

/// What queries ask an index.
extension ViewIndex {
    /// Passes the share of the index that is built to `done`, in percent, on the index's lane; 100
    /// only if it is complete.
    func builtPercent(_ done: @escaping @Sendable (Int) -> Void) {
        surroundings.lane.post { [self] in
            guard !progress.table.isReady else { return done(100) }
            done(min(99, Int(progress.table.progress * 100)))
        }
    }
}
