package import Vocabulary

/// Decides which vBuckets of a lane file the next commit contains, and when it begins.
///
/// A small commit begins 250 ms after the oldest change and contains all changes. If flushing would
/// use more than its share of a core, the lane rests between commits, so that several changes of a
/// key become one write. The rest ends in time for every change to be persisted before `ageMax`. A
/// vBucket for which a client waits is committed at once.
///
/// A machine without a clock: times are arguments, in monotonic nanoseconds.
///
/// - `entries` are ordered by `since`; a vBucket is there at most once.
package struct FlushQueue {
    package struct Entry: Hashable {
        package let vBucket: VBucketID
        /// A lower bound of the arrival of the vBucket's oldest undrained change.
        package let since: UInt64
    }

    /// The parameters, from `Limits` and from the number of lane files that share the bucket's
    /// changes.
    package struct Pace: Hashable {
        /// The delay of a commit after the oldest change, in nanoseconds.
        package var delay: UInt64
        /// The age at which every change has to be persisted, in nanoseconds.
        package var ageMax: UInt64
        /// The rest after a commit, as a multiple of its duration.
        package var restFactor: UInt64

        package init(delay: UInt64, ageMax: UInt64, restFactor: UInt64) {
            self.delay = delay
            self.ageMax = ageMax
            self.restFactor = restFactor
        }
    }

    package private(set) var entries: [Entry] = []
    private var members: Set<VBucketID> = []
    private var hurried: Set<VBucketID> = []
    /// vBuckets of callers that wait for many vBuckets, one after the other: one commit serves all
    /// of them.
    private var gathered: Set<VBucketID> = []
    private var gatheredUntil: UInt64 = 0
    /// vBuckets of the running commit that were hurried when it began.
    private var beingServed: Set<VBucketID> = []
    /// Changes that arrived up to this time are hurried.
    private var hurriedThrough: UInt64 = 0
    private var restUntil: UInt64 = 0
    /// The recent cost of a vBucket in nanoseconds, its share of compaction included.
    package private(set) var costPerVBucket: UInt64 = 0
    /// The time that commits of everything that waits will need, by the cost of earlier commits, in
    /// nanoseconds; 0 if nothing waits, or before the first commit.
    package var nanosecondsToPersist: UInt64 { UInt64(entries.count) * costPerVBucket }
    package let pace: Pace

    package init(pace: Pace) { self.pace = pace }

    package var isEmpty: Bool { entries.isEmpty }
    /// When the oldest change arrived; nil if nothing waits.
    package var oldest: UInt64? { entries.first?.since }

    /// Adds a vBucket with changes; no effect if it already waits.
    package mutating func add(_ vBucket: VBucketID, since: UInt64) {
        guard members.insert(vBucket).inserted else { return }
        var place = entries.endIndex
        while place > 0, entries[place - 1].since > since { place -= 1 }
        entries.insert(Entry(vBucket: vBucket, since: since), at: place)
    }

    /// Hurries a vBucket for which a caller waits; no effect if it has no changes.
    package mutating func hurry(_ vBucket: VBucketID) { hurried.insert(vBucket) }

    /// Hurries a vBucket whose caller waits for many others as well, one after the other.
    ///
    /// They share a commit that begins after a short delay, since a commit for each would keep the
    /// disk busy.
    package mutating func hurry(_ vBucket: VBucketID, gatheringFrom now: UInt64) {
        guard members.contains(vBucket), !hurried.contains(vBucket) else { return }
        if gathered.isEmpty { gatheredUntil = now &+ FlushQueue.gatherNanoseconds }
        gathered.insert(vBucket)
    }

    private static let gatherNanoseconds = Limits.commitGatherMilliseconds * 1_000_000

    /// Hurries everything that waits now.
    package mutating func hurryAll(now: UInt64) { hurriedThrough = max(hurriedThrough, now) }

    /// When the next commit has to begin; nil if there is nothing to commit.
    package func nextStart() -> UInt64? {
        guard let first = entries.first else { return nil }
        guard !hasHurried else { return 0 }
        let start = calmStart(first)
        return gathered.isEmpty ? start : min(start, gatheredUntil)
    }

    /// When the commit has to begin if nothing is hurried.
    private func calmStart(_ first: Entry) -> UInt64 {
        let due = first.since &+ pace.delay
        guard restUntil > due else { return due }
        var latest = restUntil
        for (index, entry) in entries.enumerated() {
            let needed = costPerVBucket * UInt64(index + 1)
            let end = entry.since &+ pace.ageMax
            latest = min(latest, end > needed ? end - needed : 0)
        }
        return max(due, latest)
    }

    private var hasHurried: Bool {
        guard let oldest, oldest > hurriedThrough else { return !entries.isEmpty }
        return !hurried.isDisjoint(with: members)
    }

    /// Removes and returns the entries of the next commit, hurried ones first.
    ///
    /// While the lane rests these are only the hurried ones. Entries that do not fit into the
    /// commit, or could not be committed, return by `putBack`. The commit serves the callers that
    /// wait: later changes are not hurried until `hurry` is called again.
    package mutating func removeNextBatch(now: UInt64) -> [Entry] {
        if gatheredUntil <= now {
            hurried.formUnion(gathered)
            gathered = []
        }
        let isResting = restUntil > now && (entries.first.map(calmStart) ?? 0) > now
        var taken: [Entry] = []
        var others: [Entry] = []
        for entry in entries {
            let isWanted = hurried.contains(entry.vBucket) || entry.since <= hurriedThrough
            if isWanted { taken.append(entry) } else { others.append(entry) }
        }
        if !isResting || taken.isEmpty {
            taken += others
            others = []
        }
        entries = others
        for entry in taken {
            members.remove(entry.vBucket)
            gathered.remove(entry.vBucket)
            if hurried.remove(entry.vBucket) != nil { beingServed.insert(entry.vBucket) }
        }
        return taken
    }

    package mutating func putBack(_ left: some Sequence<Entry>) {
        for entry in left {
            add(entry.vBucket, since: entry.since)
            if beingServed.remove(entry.vBucket) != nil { hurried.insert(entry.vBucket) }
        }
    }

    /// Ends a commit of so many vBuckets, compaction included.
    package mutating func committed(_ vBuckets: Int, began: UInt64, ended: UInt64) {
        let worked = ended > began ? ended - began : 0
        restUntil = ended &+ worked &* pace.restFactor
        beingServed = []
        // Callers that wait for a vBucket without changes are served.
        hurried.formIntersection(members)
        guard vBuckets > 0 else { return }
        let cost = worked / UInt64(vBuckets)
        costPerVBucket = costPerVBucket == 0 ? cost : (costPerVBucket * 3 + cost) / 4
    }

    package mutating func removeAll() {
        entries = []
        members = []
        hurried = []
        gathered = []
        beingServed = []
    }
}
