package import Bytes

/// One vBucket's documents by key: an open table of tagged pointers, in hash order.
///
/// Up to some 27 000 documents are one segment; beyond that the top bits of the hash choose among
/// segments (extendible hashing, Fagin et al. 1979), so growing never touches more than 32 768
/// slots at a time. The root word can be read without the lock, for prefetching: it and all it
/// leads to stay readable until every reactor has ended its turn (`Reclaimer`).
///
/// - Order is hash order at every size: "everything below hash h was visited" survives growth.
package struct HashTable: ~Copyable {
    /// A place where a document was found; valid until the table changes.
    package struct Place {
        let segment: Segment
        let group: Int
        let place: Int
        package let item: Item

        /// The item at this place now, after the document may have been replaced.
        var current: Item { Slot(segment.group(group)[place]).item }
    }

    static let segmentSlotsMax = 32_768
    /// Tables grow when more than 82 % of the slots are taken: beyond it misses walk too far.
    private static let loadMax = (numerator: 82, denominator: 100)

    /// The root: 0, a segment, or a directory with its lowest bit set.
    private let root: SharedWord
    let hash: KeyHash
    private let account: MemoryAccount
    private let reclaimer: Reclaimer
    /// The number of documents and tombstones, stubs included.
    package private(set) var count = 0
    /// The number of stubs.
    package internal(set) var stubCount = 0
    var coding = StubCoding()

    package init(root: SharedWord, hash: KeyHash, account: MemoryAccount, reclaimer: Reclaimer) {
        self.root = root
        self.hash = hash
        self.account = account
        self.reclaimer = reclaimer
    }

    package var isEmpty: Bool { count == 0 }

    // MARK: Finding

    /// The document with `key`, whose hash is `hash`.
    @inline(__always)
    package func find(_ key: ByteView, hash: UInt64) -> Place? {
        guard let (segment, position) = segment(of: hash) else { return nil }
        let tag = Slot.tag(of: hash)
        for index in segment.home(position)..<segment.groupsWithSpares {
            let group = segment.group(index)
            var isFull = true
            for place in 0..<Segment.slotsPerGroup {
                let slot = Slot(group[place])
                if slot.matches(tag) {
                    let item = slot.item
                    if item.key.equals(key) {
                        return Place(segment: segment, group: index, place: place, item: item)
                    }
                } else if slot.isFree {
                    isFull = false
                }
            }
            if !isFull { return nil }
        }
        return nil
    }

    @inline(__always)
    func segment(of hash: UInt64) -> (Segment, UInt64)? {
        HashTable.segment(root.load(), hash)
    }

    @inline(__always)
    private static func segment(_ root: UInt64, _ hash: UInt64) -> (Segment, UInt64)? {
        guard let base = UnsafeMutableRawPointer(bitPattern: UInt(root & ~1)) else { return nil }
        if root & 1 == 0 { return (Segment(base: base), hash) }
        let directory = Directory(base: base)
        let index = directory.index(of: hash)
        return (directory[index], hash << directory.depth(at: index))
    }

    // MARK: Prefetching, without the lock

    /// First pass: prefetches the cache line in which the search for `hash` begins.
    @inline(__always)
    package static func prefetchGroup(root: SharedWord, hash: UInt64) {
        guard let (segment, position) = segment(root.loadAcquire(), hash) else { return }
        prefetch(segment.group(segment.home(position)))
    }

    /// Second pass: prefetches the items that may have the key; returns the first item's address,
    /// nil if there is none.
    @inline(__always)
    package static func prefetchItem(root: SharedWord, hash: UInt64) -> UnsafeRawPointer? {
        guard let (segment, position) = segment(root.loadAcquire(), hash) else { return nil }
        let tag = Slot.tag(of: hash)
        let group = segment.group(segment.home(position))
        for place in 0..<Segment.slotsPerGroup {
            let slot = Slot(SharedWord(at: group + place).load())
            guard slot.matches(tag) else { continue }
            let address = UnsafeRawPointer(slot.item.address)
            for line in 0..<slot.lines { prefetch(address + line * 64) }
            return address
        }
        return nil
    }

    // MARK: Changing

    /// Replaces the version at a place.
    package func replace(_ place: Place, with item: Item) {
        let word = place.segment.group(place.group) + place.place
        SharedWord(at: word).store(Slot(word.pointee).leading(to: item).word)
    }

    /// Adds a document whose key is not in the table.
    package mutating func insert(_ item: Item, hash: UInt64) {
        if root.load() == 0 { publish(Segment.make(groups: 1)) }
        count += 1
        while true {
            guard let (segment, position) = segment(of: hash) else {
                preconditionFailure("a table that was given a segment has one")
            }
            let slots = segment.groups * Segment.slotsPerGroup
            let isCrowded =
                occupied(segment) * HashTable.loadMax.denominator
                >= slots * HashTable.loadMax.numerator
            if !isCrowded, segment.insert(Slot(item, hash: hash), position: position) {
                segment.base.storeBytes(
                    of: UInt64(occupied(segment) + 1),
                    toByteOffset: 8,
                    as: UInt64.self
                )
                return
            }
            grow(segment, for: hash)
        }
    }

    /// Removes a document; the caller frees its block.
    package mutating func remove(_ place: Place) {
        remove(place.segment, place.group, place.place, hash: hash(place.item.key))
    }

    mutating func remove(_ segment: Segment, _ group: Int, _ place: Int, hash: UInt64) {
        count -= 1
        segment.base.storeBytes(
            of: UInt64(occupied(segment) - 1),
            toByteOffset: 8,
            as: UInt64.self
        )
        let depth = directoryEntry(hash).map { $0.0.depth(at: $0.1) } ?? 0
        segment.remove(group, place) { slot in self.hash(of: slot) << depth }
    }

    /// The hash of a slot's document; of a stub only its top bits, which suffice to place it.
    func hash(of slot: Slot) -> UInt64 {
        slot.isStub ? coding.hash(of: slot) : hash(slot.item.key)
    }

    private func occupied(_ segment: Segment) -> Int {
        Int(segment.base.load(fromByteOffset: 8, as: UInt64.self))
    }

    // MARK: Growing

    private func publish(_ segment: Segment) {
        account.add(Segment.bytes(groups: segment.groups))
        root.storeRelease(UInt64(UInt(bitPattern: segment.base)))
    }

    /// Replaces a crowded segment by a larger one, or by two where it has reached its limit.
    private mutating func grow(_ segment: Segment, for hash: UInt64) {
        let slots = segment.groups * Segment.slotsPerGroup
        let depth = directoryEntry(hash).map { $0.0.depth(at: $0.1) } ?? 0
        // A split needs one more hash bit of each stub: without a spare bit, the segment grows.
        let canSplit = stubCount == 0 || coding.hashBits > Segment.homeBits + depth
        if slots < HashTable.segmentSlotsMax || !canSplit {
            // Grow by half while small, for fewer moves; by a quarter later, for less slack.
            let wanted = segment.groups < 128 ? segment.groups * 3 / 2 : segment.groups * 5 / 4
            let groupsMax = HashTable.segmentSlotsMax / Segment.slotsPerGroup
            let groups = max(segment.groups + 1, canSplit ? min(wanted, groupsMax) : wanted)
            let larger = rehash(segment, into: groups, depth: depth, half: nil)
            replace(segment, by: [larger], depth: depth, hash: hash)
        } else {
            let groups = segment.groups * 5 / 8
            let halves = [0, 1].map { half in
                rehash(segment, into: groups, depth: depth + 1, half: UInt64(half))
            }
            replace(segment, by: halves, depth: depth, hash: hash)
        }
    }

    /// A new segment with the entries of an old one, or with those whose next hash bit is `half`.
    private func rehash(_ old: Segment, into wanted: Int, depth: UInt64, half: UInt64?) -> Segment {
        var groups = wanted
        while true {
            let target = Segment.make(groups: groups)
            if let moved = move(old, into: target, depth: depth, half: half) {
                target.base.storeBytes(of: UInt64(moved), toByteOffset: 8, as: UInt64.self)
                account.add(Segment.bytes(groups: groups))
                return target
            }
            // A streak of equal homes overflowed the spare groups: a little more room resolves it.
            target.free()
            groups += max(1, groups / 8)
        }
    }

    private func move(_ old: Segment, into target: Segment, depth: UInt64, half: UInt64?) -> Int? {
        var moved = 0
        for index in 0..<old.groupsWithSpares {
            let group = old.group(index)
            if index + 2 < old.groupsWithSpares {
                let ahead = old.group(index + 2)
                for place in 0..<Segment.slotsPerGroup where Slot(ahead[place]).isResident {
                    prefetch(Slot(ahead[place]).item.address)
                }
            }
            for place in 0..<Segment.slotsPerGroup where group[place] != 0 {
                let slot = Slot(group[place])
                let hash = hash(of: slot)
                if let half, (hash << (depth - 1)) >> 63 != half { continue }
                guard target.insert(slot, position: hash << depth) else { return nil }
                moved += 1
            }
        }
        return moved
    }

    func directoryEntry(_ hash: UInt64) -> (Directory, Int)? {
        let word = root.load()
        guard word & 1 == 1, let base = UnsafeMutableRawPointer(bitPattern: UInt(word & ~1)) else {
            return nil
        }
        let directory = Directory(base: base)
        return (directory, directory.index(of: hash))
    }

    /// Replaces `old` by `segments` (one, or two halves) in the root or the directory.
    private func replace(_ old: Segment, by segments: [Segment], depth: UInt64, hash: UInt64) {
        let word = root.load()
        if word & 1 == 0, segments.count == 1 {
            root.storeRelease(UInt64(UInt(bitPattern: segments[0].base)))
        } else {
            let current = UnsafeMutableRawPointer(bitPattern: UInt(word & ~1))
            let before = word & 1 == 1 ? current.map { Directory(base: $0) } : nil
            let next = Directory.make(from: before, old: old, segments, depth: depth, hash: hash)
            account.add(next.bytes - (before?.bytes ?? 0))
            root.storeRelease(UInt64(UInt(bitPattern: next.base)) | 1)
            if let before { reclaimer.retire(before.base) }
        }
        account.add(-Segment.bytes(groups: old.groups))
        reclaimer.retire(old.base)
    }

    // MARK: Dropping

    /// The bytes of the table itself, without the documents.
    package var bytes: Int {
        let word = root.load()
        guard let base = UnsafeMutableRawPointer(bitPattern: UInt(word & ~1)) else { return 0 }
        let directory = word & 1 == 1 ? Directory(base: base).bytes : 0
        return segments.reduce(directory) { $0 + Segment.bytes(groups: $1.groups) }
    }

    /// Every segment once, in hash order.
    var segments: [Segment] {
        let word = root.load()
        guard let base = UnsafeMutableRawPointer(bitPattern: UInt(word & ~1)) else { return [] }
        guard word & 1 == 1 else { return [Segment(base: base)] }
        let directory = Directory(base: base)
        var found: [Segment] = []
        for index in 0..<directory.count where found.last?.base != directory[index].base {
            found.append(directory[index])
        }
        return found
    }

    /// Empties the table: calls `body` for each document that is no stub, then retires all
    /// segments.
    package mutating func removeAll(_ body: (Item) -> Void) {
        let word = root.load()
        guard let base = UnsafeMutableRawPointer(bitPattern: UInt(word & ~1)) else { return }
        let segments = segments
        account.add(-bytes)
        root.storeRelease(0)
        count = 0
        stubCount = 0
        for segment in segments {
            for index in 0..<segment.groupsWithSpares {
                let group = segment.group(index)
                for place in 0..<Segment.slotsPerGroup where Slot(group[place]).isResident {
                    body(Slot(group[place]).item)
                }
            }
            reclaimer.retire(segment.base)
        }
        if word & 1 == 1 { reclaimer.retire(base) }
    }
}

/// Maps the top bits of a hash to a segment; immutable: every change makes a new directory.
///
/// Layout: depth, then 2^depth words, each a segment's address with its own depth in the low six
/// bits (segments begin at cache lines, so those are free).
struct Directory {
    let base: UnsafeMutableRawPointer

    private static let headerBytes = 8

    @inline(__always)
    var depth: UInt64 { base.load(as: UInt64.self) }

    var count: Int { 1 << Int(depth) }

    var bytes: Int { Directory.headerBytes + count * 8 }

    @inline(__always)
    func index(of hash: UInt64) -> Int { Int(hash >> (64 - depth)) }

    @inline(__always)
    private func word(_ index: Int) -> UInt64 {
        base.load(fromByteOffset: Directory.headerBytes + index * 8, as: UInt64.self)
    }

    @inline(__always)
    subscript(index: Int) -> Segment {
        guard let base = UnsafeMutableRawPointer(bitPattern: UInt(word(index) & ~63)) else {
            preconditionFailure("a directory has a segment for every hash")
        }
        return Segment(base: base)
    }

    /// The number of top hash bits that all keys of the segment at `index` share; less than the
    /// directory's depth if several entries point to the segment.
    @inline(__always)
    func depth(at index: Int) -> UInt64 { word(index) & 63 }

    /// The directory after the replacement of a segment.
    ///
    /// - Parameters:
    ///   - before: The previous directory; nil if there was only one segment.
    ///   - old: The replaced segment.
    ///   - segments: Its replacement: one segment, or two halves.
    ///   - depth: The depth of `old`.
    ///   - hash: Any hash that belongs to `old`.
    /// - Returns: A new directory of the smallest sufficient depth.
    static func make(
        from before: Directory?,
        old: Segment,
        _ segments: [Segment],
        depth: UInt64,
        hash: UInt64
    ) -> Directory {
        let segmentDepth = depth + UInt64(segments.count - 1)
        let newDepth = max(before?.depth ?? 0, segmentDepth)
        let count = 1 << Int(newDepth)
        let base = Memory.allocate(headerBytes + count * 8)
        base.storeBytes(of: newDepth, as: UInt64.self)
        for index in 0..<count {
            var entry: UInt64 = UInt64(UInt(bitPattern: old.base)) | depth
            if let before { entry = before.word(index >> Int(newDepth - before.depth)) }
            if entry & ~63 == UInt64(UInt(bitPattern: old.base)) {
                let half =
                    segments.count == 1 ? 0 : index >> Int(newDepth - segmentDepth) & 1
                entry = UInt64(UInt(bitPattern: segments[half].base)) | segmentDepth
            }
            base.storeBytes(of: entry, toByteOffset: headerBytes + index * 8, as: UInt64.self)
        }
        return Directory(base: base)
    }
}
