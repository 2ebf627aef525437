package import Vocabulary

/// Which vBuckets of a lane wait for the flusher, since when, and when their commit is to begin.
///
/// Little to write goes at once: a commit begins 250 ms after the oldest change, and takes whatever
/// is there. Where flushing would take more than its share of a core, the lane rests between
/// commits, so that more changes of a key become one write; it rests no longer than lets every
/// change reach the disk before `ageMax`. Somebody who waits for persistence waits for neither:
/// his vBucket comes first.
///
/// A machine: it has no clock, times are what the caller read, in monotonic nanoseconds.
///
/// - `entries` are in order of `since`; a vBucket is there at most once.
package struct FlushQueue {
    package struct Entry: Hashable {
        package let vBucket: VBucketID
        /// Not after the arrival of its oldest change that nobody has drained.
        package let since: UInt64
    }

    /// Where the numbers come from: `Limits`, and how many lanes share the bucket's changes.
    package struct Pace: Hashable {
        /// The oldest change waits this long for company.
        package var delay: UInt64
        /// Every change is to be on disk by then, whatever the load.
        package var ageMax: UInt64
        /// Time to rest for the time of one commit.
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
    /// Somebody waits for these, and others will for more: a commit comes for all of them.
    private var gathered: Set<VBucketID> = []
    private var gatheredUntil: UInt64 = 0
    /// Those of the commit under way that somebody waited for when it took them.
    private var beingServed: Set<VBucketID> = []
    /// Everything that arrived until then is wanted at once.
    private var hurriedThrough: UInt64 = 0
    private var restUntil: UInt64 = 0
    /// What a vBucket took lately, its share of compaction included.
    package private(set) var costPerVBucket: UInt64 = 0
    package let pace: Pace

    package init(pace: Pace) { self.pace = pace }

    package var isEmpty: Bool { entries.isEmpty }
    package var oldest: UInt64? { entries.first?.since }

    /// A vBucket has something to flush; that it waits already changes nothing.
    package mutating func add(_ vBucket: VBucketID, since: UInt64) {
        guard members.insert(vBucket).inserted else { return }
        var place = entries.endIndex
        while place > 0, entries[place - 1].since > since { place -= 1 }
        entries.insert(Entry(vBucket: vBucket, since: since), at: place)
    }

    /// Somebody waits for this vBucket; without effect where it turns out to be clean.
    package mutating func hurry(_ vBucket: VBucketID) { hurried.insert(vBucket) }

    /// Somebody waits for this vBucket and for many others, one after the other: they share a commit
    /// that begins in a moment, as each of them in one of its own would keep the disk busy.
    package mutating func hurry(_ vBucket: VBucketID, gatheringFrom now: UInt64) {
        guard members.contains(vBucket), !hurried.contains(vBucket) else { return }
        if gathered.isEmpty { gatheredUntil = now &+ FlushQueue.gatherNanoseconds }
        gathered.insert(vBucket)
    }

    private static let gatherNanoseconds = Limits.commitGatherMilliseconds * 1_000_000

    /// Everything that waits now is wanted at once.
    package mutating func hurryAll(now: UInt64) { hurriedThrough = max(hurriedThrough, now) }

    /// When the next commit is to begin; nil where there is nothing to commit.
    package func nextStart() -> UInt64? {
        guard let first = entries.first else { return nil }
        guard !hasHurried else { return 0 }
        let start = calmStart(first)
        return gathered.isEmpty ? start : min(start, gatheredUntil)
    }

    /// When it is to begin where nobody waits.
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

    /// Takes what the next commit is made of, first what somebody waits for.
    ///
    /// While the lane rests that is all; what does not fit into the commit, or could not be
    /// committed, comes back by `putBack`. Who waited is served by this commit: what changes
    /// after it keeps nobody waiting, until somebody says so again.
    package mutating func take(now: UInt64) -> [Entry] {
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

    /// A commit of so many vBuckets is over, with what it caused.
    package mutating func committed(_ vBuckets: Int, began: UInt64, ended: UInt64) {
        let worked = ended > began ? ended - began : 0
        restUntil = ended &+ worked &* pace.restFactor
        beingServed = []
        // Whoever waited for one that had nothing new has what he wanted.
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
