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
