internal import SyncWire

/// The logs of all channels of a database, in memory.
///
/// Each channel has the rows of its documents in order of sequence; a new version of a document replaces
/// its rows. The log of a whole database is that of `*`.
///
/// - Sequences are recorded in increasing order.
/// - A document has one row in `*`, and one in each channel that it is or was in.
///
/// Memory, besides ids and revisions themselves: 12 bytes a row (twice that before holes are removed),
/// 24 for each channel that a document is or was in, 40 a version with rows, about 70 a document.
package struct ChannelLog: Sendable {
    private struct Version {
        var revision: RevisionID?
        var sequence: UInt64
        var document: UInt32
        /// How many rows the version has; 0 if the place is free.
        var rows: UInt32 = 0
        var flags: LogRow.Flags
    }

    private struct Place {
        let channel: UInt32
        var isRemoval: Bool
        var sequence: UInt64
        let entered: UInt64
    }

    private struct Document {
        let id: [UInt8]
        let created: UInt64
        var version: UInt32
        var places: [Place] = []
    }

    /// The newest sequence.
    package private(set) var newest: UInt64 = 0
    /// The ids of documents, of deleted ones too, in order of their bytes: for `_all_docs`.
    package private(set) var ids = OrderedIDs()

    private var documents: NumberedValues<Document> = NumberedValues()
    private var documentSlots: [[UInt8]: UInt32] = [:]
    private var versions: NumberedValues<Version> = NumberedValues()
    private var channels: [ChannelName] = []
    private var channelSlots: [ChannelName: UInt32] = [:]
    private var rows: [RowList] = []
    /// The rows of `*`.
    private var allRows = RowList()

    package init() {}

    /// Records a version of a document, or of a principal, whose flags say so.
    ///
    /// - Parameters:
    ///   - row: The version; its `entered` is not used.
    ///   - names: The channels of the document; `*` may be among them.
    /// - Returns: The channels with a new row, without `*`, which has one always.
    /// - Precondition: The sequence is higher than all before.
    package mutating func record(_ row: LogRow, in names: Set<ChannelName> = []) -> [ChannelName] {
        precondition(row.sequence > newest, "sequences are recorded in increasing order")
        newest = row.sequence
        let slot = documentSlot(of: row)
        removeRow(of: documents[slot].version, from: nil)
        let version = versions.insert(
            Version(
                revision: row.revision,
                sequence: row.sequence,
                document: slot,
                flags: row.flags.subtracting(.removed)
            )
        )
        documents[slot].version = version
        allRows.append(row.sequence, version)
        versions[version].rows = 1
        var joined = names.subtracting([.all])
        var changed: [ChannelName] = []
        for index in documents[slot].places.indices {
            var place = documents[slot].places[index]
            let name = channels[Int(place.channel)]
            let isMember = joined.remove(name) != nil
            if !isMember, place.isRemoval { continue }
            removeRow(at: place)
            place.isRemoval = !isMember
            place.sequence = row.sequence
            documents[slot].places[index] = place
            append(version, to: place)
            changed.append(name)
        }
        for name in joined.sorted() {
            let place = Place(
                channel: channelSlot(of: name),
                isRemoval: false,
                sequence: row.sequence,
                entered: row.sequence
            )
            documents[slot].places.append(place)
            append(version, to: place)
            changed.append(name)
        }
        return changed
    }

    /// Removes all rows of a document, as if it had never existed.
    package mutating func purge(_ id: [UInt8]) {
        guard let slot = documentSlots.removeValue(forKey: id) else { return }
        for place in documents[slot].places { removeRow(at: place) }
        removeRow(of: documents[slot].version, from: nil)
        documents.remove(slot)
        ids.remove(id)
    }

    private mutating func documentSlot(of row: LogRow) -> UInt32 {
        if let slot = documentSlots[row.document] { return slot }
        let slot = documents.insert(
            Document(id: row.document, created: row.sequence, version: .max)
        )
        documentSlots[row.document] = slot
        if !row.flags.contains(.principal) { ids.insert(row.document) }
        return slot
    }

    private mutating func channelSlot(of name: ChannelName) -> UInt32 {
        if let slot = channelSlots[name] { return slot }
        let slot = UInt32(channels.count)
        channels.append(name)
        rows.append(RowList())
        channelSlots[name] = slot
        return slot
    }

    private mutating func append(_ version: UInt32, to place: Place) {
        rows[Int(place.channel)].append(place.sequence, version)
        versions[version].rows += 1
    }

    private mutating func removeRow(at place: Place) {
        guard let version = rows[Int(place.channel)].version(at: place.sequence) else { return }
        removeRow(of: version, from: place.channel)
    }

    /// Removes the row of a version from a channel, or from `*` if `channel` is nil.
    private mutating func removeRow(of version: UInt32, from channel: UInt32?) {
        guard versions.holds(version) else { return }
        let sequence = versions[version].sequence
        if let channel {
            rows[Int(channel)].remove(sequence)
        } else {
            allRows.remove(sequence)
        }
        versions[version].rows -= 1
        if versions[version].rows == 0 { versions.remove(version) }
    }
}

extension ChannelLog: ChannelSource {
    package func rows(
        of channel: ChannelName,
        after sequence: UInt64,
        atMost count: Int
    ) throws(Never) -> [LogRow] {
        if channel == .all {
            return allRows.rows(after: sequence, atMost: count).map { row($0, of: nil) }
        }
        guard let slot = channelSlots[channel] else { return [] }
        return rows[Int(slot)].rows(after: sequence, atMost: count).map { row($0, of: slot) }
    }

    package func memberships(of row: LogRow) throws(Never) -> [ChannelMembership] {
        guard let slot = documentSlots[row.document] else { return [] }
        let document = documents[slot]
        var found = document.places.filter { $0.sequence == row.sequence }
            .map { ChannelMembership(channels[Int($0.channel)], isRemoval: $0.isRemoval) }
        if versions[document.version].sequence == row.sequence {
            found.append(ChannelMembership(.all, isRemoval: false))
        }
        return found
    }

    package func newest(_ document: [UInt8]) throws(Never) -> NewestVersion? {
        guard let slot = documentSlots[document] else { return nil }
        let places = documents[slot].places
        return NewestVersion(
            row: row(documents[slot].version, of: nil),
            channels: places.filter { !$0.isRemoval }.map { channels[Int($0.channel)] },
            removals: places.filter(\.isRemoval).map { place in
                let version = rows[Int(place.channel)].version(at: place.sequence)
                return NewestVersion.Removal(
                    channel: channels[Int(place.channel)],
                    sequence: place.sequence,
                    isDeletion: version.map { versions[$0].flags.contains(.deleted) } ?? false
                )
            }
        )
    }

    private func row(_ version: UInt32, of channel: UInt32?) -> LogRow {
        let found = versions[version]
        let document = documents[found.document]
        let place = document.places.first { $0.channel == channel }
        return LogRow(
            found.sequence,
            document.id,
            revision: found.revision,
            flags: place?.isRemoval == true ? found.flags.union(.removed) : found.flags,
            entered: place?.entered ?? document.created
        )
    }
}

/// The rows of one channel in order of sequence: 12 bytes each.
///
/// A replaced row leaves a hole, because moving the rows behind it would cost as much as the log is long.
/// Holes are removed when they are as many as the rows, so that appending costs a constant on average.
struct RowList: Sendable {
    private static let hole = UInt32.max
    private static let holesMin = 16

    private var sequences: [UInt64] = []
    private var versions: [UInt32] = []
    private var holes = 0

    /// - Precondition: `sequence` is higher than all in the list.
    mutating func append(_ sequence: UInt64, _ version: UInt32) {
        sequences.append(sequence)
        versions.append(version)
    }

    /// The version of a row; nil if there is none with that sequence.
    func version(at sequence: UInt64) -> UInt32? {
        let index = sequences.lowerBound(sequence)
        guard index < sequences.count, sequences[index] == sequence, versions[index] != Self.hole
        else { return nil }
        return versions[index]
    }

    mutating func remove(_ sequence: UInt64) {
        guard version(at: sequence) != nil else { return }
        versions[sequences.lowerBound(sequence)] = Self.hole
        holes += 1
        if holes >= Self.holesMin, holes * 2 >= sequences.count { removeHoles() }
    }

    /// The versions of the first rows after `sequence`.
    func rows(after sequence: UInt64, atMost count: Int) -> [UInt32] {
        var found: [UInt32] = []
        var index = sequence == .max ? sequences.count : sequences.lowerBound(sequence + 1)
        while index < sequences.count, found.count < count {
            if versions[index] != Self.hole { found.append(versions[index]) }
            index += 1
        }
        return found
    }

    private mutating func removeHoles() {
        let kept = versions.indices.filter { versions[$0] != Self.hole }
        sequences = kept.map { sequences[$0] }
        versions = kept.map { versions[$0] }
        holes = 0
    }
}

/// Ids of documents in order of their bytes: 8 to 16 bytes each, besides the ids themselves.
///
/// A list of short sorted parts: an insertion moves at most one part.
package struct OrderedIDs: Sendable {
    private static let partMax = 512

    /// No part is empty.
    private var parts: [[[UInt8]]] = []
    package private(set) var count = 0

    package init() {}

    /// The first ids that are not below `first`.
    package func ids(from first: [UInt8] = [], atMost limit: Int = .max) -> [[UInt8]] {
        var found: [[UInt8]] = []
        var part = partIndex(of: first)
        var index = parts.isEmpty ? 0 : position(of: first, in: part)
        while part < parts.count, found.count < limit {
            let end = min(parts[part].count, index + (limit - found.count))
            found += parts[part][index..<end]
            part += 1
            index = 0
        }
        return found
    }

    /// The last ids that are below `bound`, in descending order; nil is above all ids.
    package func ids(below bound: [UInt8]?, atMost limit: Int) -> [[UInt8]] {
        guard !parts.isEmpty else { return [] }
        var found: [[UInt8]] = []
        var part = bound.map { partIndex(of: $0) } ?? parts.count - 1
        var end = bound.map { position(of: $0, in: part) } ?? parts[part].count
        while found.count < limit {
            let start = max(0, end - (limit - found.count))
            found += parts[part][start..<end].reversed()
            guard part > 0 else { break }
            part -= 1
            end = parts[part].count
        }
        return found
    }

    package mutating func insert(_ id: [UInt8]) {
        if parts.isEmpty { parts.append([]) }
        let part = partIndex(of: id)
        let index = position(of: id, in: part)
        if index < parts[part].count, parts[part][index] == id { return }
        parts[part].insert(id, at: index)
        count += 1
        guard parts[part].count > Self.partMax else { return }
        let half = parts[part].count / 2
        parts.insert(Array(parts[part][half...]), at: part + 1)
        parts[part].removeLast(parts[part].count - half)
    }

    package mutating func remove(_ id: [UInt8]) {
        guard !parts.isEmpty else { return }
        let part = partIndex(of: id)
        let index = position(of: id, in: part)
        guard index < parts[part].count, parts[part][index] == id else { return }
        parts[part].remove(at: index)
        count -= 1
        if parts[part].isEmpty { parts.remove(at: part) }
    }

    /// The last part whose first id is not above `id`, or the first part.
    private func partIndex(of id: [UInt8]) -> Int {
        var low = 1
        var high = max(parts.count, 1)
        while low < high {
            let middle = (low + high) / 2
            if id.lexicographicallyPrecedes(parts[middle][0]) {
                high = middle
            } else {
                low = middle + 1
            }
        }
        return low - 1
    }

    private func position(of id: [UInt8], in part: Int) -> Int {
        var low = 0
        var high = parts[part].count
        while low < high {
            let middle = (low + high) / 2
            if parts[part][middle].lexicographicallyPrecedes(id) {
                low = middle + 1
            } else {
                high = middle
            }
        }
        return low
    }
}
