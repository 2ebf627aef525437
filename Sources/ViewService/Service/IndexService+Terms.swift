internal import Bytes
package import Indexing

/// An administrator's settings for all indexes, from the agreed state.
package struct IndexTerms: Hashable, Sendable {
    package var updates = UpdateSchedule.Terms()
    /// Indexes that are built at a time.
    package var buildsMax = IndexBuilds.countMaxDefault
    package var compaction = CompactionPolicy.Threshold()

    package init() {}

    /// When an index is updated: the lowest number of changes that a design document of it sets.
    func updates(_ plan: ViewedBucket.Plan) -> UpdateSchedule.Terms {
        var updates = updates
        updates.changesMin = plan.leastChanges(default: updates.changesMin)
        return updates
    }
}

extension ViewedBucket.Plan {
    /// The changes from which on the index is updated; documents without the option have `standard`.
    ///
    /// 0, by which only queries update the index, counts as the highest number.
    func leastChanges(default standard: UInt64) -> UInt64 {
        let all = Set(changesMin.map { $0.map { UInt64(clamping: $0) } ?? standard })
        return all.filter { $0 > 0 }.min() ?? all.first ?? standard
    }
}

/// Settings of all indexes.
extension IndexService {
    /// Replaces the settings of all indexes.
    package func set(_ terms: IndexTerms) {
        let isChanged = newest.withLock { newest in
            exchange(&newest.terms, with: terms) != terms && !newest.isStopped
        }
        guard isChanged else { return }
        builds.limit(to: terms.buildsMax)
        keeper.set(terms)
    }
}
