package import Vocabulary

/// Which vBuckets one index follows, and what it does about each next.
///
/// A value without I/O. The owner passes events and carries out the returned actions; each action's
/// completion is another event.
///
/// - A vBucket is counted by queries only in the home `main`, so a vBucket that arrives, or whose
///   history is replaced, is never half counted.
/// - Rows are removed completely before the vBucket is filled again: two fillings never mix.
/// - Homes and positions change here only when the commit that stores them has returned.
package struct IndexTable: Sendable {
    /// A step for the owner to carry out.
    package enum Action: Hashable, Sendable {
        /// Open the vBucket's feed at this position.
        case open(VBucketID, IndexPosition)
        /// Close the feed and discard its changes that are not committed.
        case close(VBucketID)
        /// Commit the home `leaving` and remove the rows of the vBucket, in steps; then report
        /// `removed`.
        case remove(VBucketID)
        /// Commit the home `main`: the vBucket is complete without another change; then report
        /// `committed`.
        case complete(VBucketID)
        /// Open the feed again after a pause.
        case retry(VBucketID)
    }

    /// The outcome of opening a feed.
    package enum Opening: Hashable, Sendable {
        /// The copy has changes through `high`.
        case opened(high: Seqno, uuid: VBucketUUID)
        /// The index has changes that the copy does not have.
        case rollBack
        /// The copy cannot be read at present.
        case unavailable
    }

    private enum Feed: Hashable {
        case closed
        case opening
        /// `target` is the seqno from which a filling vBucket is complete.
        case open(target: Seqno)
    }

    private struct Entry {
        var home = VBucketHome.none
        var position = IndexPosition.zero
        var isServed = false
        var feed = Feed.closed
        /// The owner is removing the rows.
        var isRemoving = false
        /// The last change that a bulk load has and no tree.
        var loaded = Seqno.zero
    }

    /// Entries by vBucket, with the number of those that are served and not complete.
    private struct Entries {
        private(set) var all: [VBucketID: Entry] = [:]
        private(set) var incomplete = 0

        subscript(vBucket: VBucketID) -> Entry? {
            get { all[vBucket] }
            set {
                let old = all[vBucket]
                incomplete += Entries.isIncomplete(newValue) - Entries.isIncomplete(old)
                all[vBucket] = newValue
            }
        }

        private static func isIncomplete(_ entry: Entry?) -> Int {
            guard let entry else { return 0 }
            return entry.isServed && entry.home != .main ? 1 : 0
        }
    }

    private var entries = Entries()

    /// An index with what its file has; every feed is closed.
    package init(stored: [VBucketID: (home: VBucketHome, position: IndexPosition)] = [:]) {
        for (vBucket, row) in stored where row.home != .none {
            entries[vBucket] = Entry(home: row.home, position: row.position)
        }
    }

    // MARK: Events

    /// Sets the vBuckets that this node serves.
    package mutating func serve(_ served: Set<VBucketID>) -> [Action] {
        var actions: [Action] = []
        for vBucket in served where entries[vBucket] == nil { entries[vBucket] = Entry() }
        for vBucket in entries.all.keys.sorted() {
            entries[vBucket]?.isServed = served.contains(vBucket)
            actions += advance(vBucket)
        }
        return actions
    }

    /// The feed of `vBucket` was opened, or could not be.
    package mutating func opened(_ vBucket: VBucketID, _ opening: Opening) -> [Action] {
        guard var entry = entries[vBucket], entry.feed == .opening else { return [] }
        switch opening {
        case .opened(let high, let uuid):
            entry.feed = .open(target: high)
            entry.position.uuid = uuid
            entries[vBucket] = entry
            let isComplete = entry.home == .filling && entry.position.covered >= high
            return isComplete ? [.complete(vBucket)] : []
        case .rollBack:
            entry.feed = .closed
            entries[vBucket] = entry
            return replace(vBucket)
        case .unavailable:
            entry.feed = .closed
            entries[vBucket] = entry
            return entry.isServed ? [.retry(vBucket)] : []
        }
    }

    /// The pause after `retry` is over.
    package mutating func retry(_ vBucket: VBucketID) -> [Action] { advance(vBucket) }

    /// The feed of `vBucket` ended, because its copy or its history changed, or cannot be read.
    ///
    /// A feed that ends again and again must not occupy the owner.
    package mutating func ended(_ vBucket: VBucketID) -> [Action] {
        guard follows(vBucket) else { return [] }
        entries[vBucket]?.feed = .closed
        return [.retry(vBucket)]
    }

    /// The index cannot continue from its position: tombstones after it were purged.
    package mutating func purged(_ vBucket: VBucketID) -> [Action] {
        guard follows(vBucket) else { return [] }
        entries[vBucket]?.feed = .closed
        return replace(vBucket)
    }

    /// A commit has stored the rows of `vBucket` through `position`.
    ///
    /// The commit has stored `homeAfterCommit` with them.
    package mutating func committed(_ vBucket: VBucketID, _ position: IndexPosition) {
        guard let home = entries[vBucket]?.home, home == .filling || home == .main else { return }
        let next = homeAfterCommit(of: vBucket, at: position)
        entries[vBucket]?.home = next
        entries[vBucket]?.position = position
    }

    /// A bulk load has the changes of `vBucket` through `seqno`, and no commit has them in trees.
    ///
    /// It counts as progress only; zero after the load has discarded them.
    package mutating func loaded(_ vBucket: VBucketID, through seqno: Seqno) {
        entries[vBucket]?.loaded = seqno
    }

    /// A bulk load keeps the changes of `vBucket` through `position`: it has stored them, or is making
    /// the trees of them.
    ///
    /// The feed is opened there again. The vBucket stays incomplete until `committed`.
    package mutating func kept(_ vBucket: VBucketID, _ position: IndexPosition) {
        guard entries[vBucket]?.home == .filling else { return }
        entries[vBucket]?.position = position
    }

    /// The last rows of `vBucket` were removed, and the commit has stored that it has no home.
    package mutating func removed(_ vBucket: VBucketID) -> [Action] {
        guard entries[vBucket]?.home == .leaving else { return [] }
        entries[vBucket]?.home = .none
        entries[vBucket]?.position = .zero
        entries[vBucket]?.isRemoving = false
        return advance(vBucket)
    }

    // MARK: State

    /// Where the rows of `vBucket` are.
    package func home(of vBucket: VBucketID) -> VBucketHome { entries[vBucket]?.home ?? .none }

    /// How far the index has the changes of `vBucket`.
    package func position(of vBucket: VBucketID) -> IndexPosition {
        entries[vBucket]?.position ?? .zero
    }

    /// Whether changes of `vBucket` may be applied to the index.
    package func follows(_ vBucket: VBucketID) -> Bool {
        if case .open? = entries[vBucket]?.feed { return true }
        return false
    }

    /// Whether queries count `vBucket`, and the index has a state of it at `seqno` or later.
    ///
    /// Without an open feed it has none: the position may be of a history that the copy has lost.
    package func has(_ vBucket: VBucketID, through seqno: Seqno) -> Bool {
        guard let entry = entries[vBucket], case .open = entry.feed else { return false }
        return entry.home == .main && entry.position.covered >= seqno
    }

    /// Whether queries count `vBucket`, and the index has the awaited change.
    package func has(_ vBucket: VBucketID, _ awaited: AwaitedChange) -> Bool {
        has(vBucket, through: awaited.seqno) && !follows(vBucket, otherThan: awaited)
    }

    /// Whether the index follows another history than that of the awaited change.
    ///
    /// Then the index never has the change, or has not noticed yet that the history ended.
    package func follows(_ vBucket: VBucketID, otherThan awaited: AwaitedChange) -> Bool {
        guard let uuid = awaited.uuid, let entry = entries[vBucket], case .open = entry.feed else {
            return false
        }
        return entry.position.uuid != uuid
    }

    /// The home that a commit of changes through `position` stores.
    package func homeAfterCommit(
        of vBucket: VBucketID,
        at position: IndexPosition
    ) -> VBucketHome {
        guard let entry = entries[vBucket], case .open(let target) = entry.feed else {
            return home(of: vBucket)
        }
        return entry.home == .filling && position.covered >= target ? .main : entry.home
    }

    /// The served vBuckets that queries do not count yet, in order.
    package var missing: [VBucketID] {
        entries.all.filter { $0.value.isServed && $0.value.home != .main }.keys.sorted()
    }

    /// Whether every served vBucket is counted by queries.
    package var isReady: Bool { entries.incomplete == 0 }

    /// Whether every served vBucket would be complete if the index had `positions`.
    package func isComplete(with positions: [VBucketID: IndexPosition]) -> Bool {
        var servesAny = false
        for (vBucket, entry) in entries.all where entry.isServed {
            guard case .open(let target) = entry.feed,
                (positions[vBucket] ?? entry.position).covered >= target
            else { return false }
            servesAny = true
        }
        return servesAny
    }

    /// Whether queries count any served vBucket.
    package var countsAny: Bool {
        entries.all.values.contains { $0.isServed && $0.home == .main }
    }

    /// The changes that the index has, of all through the seqnos that vBuckets had when their feeds
    /// were opened.
    package var changes: (done: UInt64, total: UInt64) {
        var (done, total): (UInt64, UInt64) = (0, 0)
        for entry in entries.all.values where entry.isServed {
            switch (entry.home, entry.feed) {
            case (.main, _):
                done &+= entry.position.seqno.value
                total &+= entry.position.seqno.value
            case (.filling, .open(let target)):
                done &+= min(max(entry.position.seqno, entry.loaded), target).value
                total &+= target.value
            // Nothing is known of its size, so it counts as one change that is missing.
            default: total &+= 1
            }
        }
        return (done, total)
    }

    /// The share of `changes` that the index has: 0 to 1.
    package var progress: Double {
        let (done, total) = changes
        return total == 0 ? 1 : Double(done) / Double(total)
    }

    // MARK: Decisions

    /// Decides the next actions for a vBucket whose state has changed.
    private mutating func advance(_ vBucket: VBucketID) -> [Action] {
        guard let entry = entries[vBucket] else { return [] }
        switch (entry.isServed, entry.home) {
        case (_, .leaving):
            guard !entry.isRemoving else { return [] }
            entries[vBucket]?.isRemoving = true
            return [.remove(vBucket)]
        case (true, _):
            guard entry.feed == .closed else { return [] }
            if entry.home == .none { entries[vBucket]?.home = .filling }
            entries[vBucket]?.feed = .opening
            return [.open(vBucket, entry.position)]
        case (false, .none):
            entries[vBucket] = nil
            return entry.feed == .closed ? [] : [.close(vBucket)]
        case (false, .main), (false, .filling), (false, .side): return replace(vBucket)
        }
    }

    /// Removes the rows of a vBucket; if the vBucket is served, it is filled again afterwards.
    private mutating func replace(_ vBucket: VBucketID) -> [Action] {
        guard let entry = entries[vBucket] else { return [] }
        let actions: [Action] = entry.feed == .closed ? [] : [.close(vBucket)]
        entries[vBucket]?.feed = .closed
        guard entry.home != .leaving else { return actions }
        guard entry.home != .none else { return actions + advance(vBucket) }
        entries[vBucket]?.home = .leaving
        return actions + advance(vBucket)
    }
}
