internal import Bytes
package import JSON
internal import SyncWire

/// The metadata as Sync Gateway 1.4 prints it in `_raw` (S 0).
extension DocumentMetadata {
    /// Bits of `flags`.
    private enum Flag {
        static let deleted = 1
        /// The newest revision is not the winner.
        static let hidden = 4
        static let conflict = 8
        static let branched = 16
    }

    /// Writes the value of `_sync`.
    ///
    /// `expires` is the second at which the document does; 0 for never.
    package func writeJSON(to writer: inout JSONWriter, expires: UInt64 = 0) {
        let winner = tree.winner
        let newest = tree.newest
        let isHidden = newest != winner?.id
        let flags =
            (winner?.isDeleted == true ? Flag.deleted : 0) | (isHidden ? Flag.hidden : 0)
            | (tree.hasConflict ? Flag.conflict : 0) | (tree.isBranched ? Flag.branched : 0)
        writer.object { writer in
            writer.member("rev", winner.map { "\($0.id)" } ?? "")
            if isHidden, let newest { writer.member("new_rev", "\(newest)") }
            if flags != 0 { writer.member("flags", flags) }
            if sequence != 0 { writer.member("sequence", sequence) }
            if !recentSequences.isEmpty {
                writer.array("recent_sequences") { for one in recentSequences { $0.value(one) } }
            }
            writer.object("history") { writeHistory(to: &$0) }
            if !channels.isEmpty {
                writer.object("channels") { for record in channels { record.writeJSON(to: &$0) } }
            }
            if !access.grants.isEmpty { writer.object("access") { access.writeMembers(to: &$0) } }
            if !roleAccess.grants.isEmpty {
                writer.object("role_access") { roleAccess.writeMembers(to: &$0) }
            }
            if expires != 0 {
                let text = CalendarTime.text(unixNanoseconds: expires * 1_000_000_000)
                writer.member("exp", text)
            }
            writer.member("time_saved", CalendarTime.text(unixNanoseconds: timeSaved))
        }
    }

    /// The body of a losing leaf that is in the metadata, as JSON with its members of the gateway.
    private func bodyText(at index: Int) -> String? {
        let id = tree.id(at: index)
        guard tree.winner?.id != id, case .inline(let body) = bodyLocation(of: id) else {
            return nil
        }
        let isDeleted = tree.nodes[index].isDeleted
        let own = GatewayMembers(
            attachments: body.attachments.isEmpty
                ? nil : CanonicalJSON.text(of: StoredAttachment.json(body.attachments)),
            deletion: isDeleted ? true : nil
        )
        let output = ByteWriter(capacity: body.json.count + 64)
        let content = body.json.isEmpty ? .empty : DocumentContent(canonical: body.json)
        content.append(with: own, to: output)
        return output.withView { $0.text }
    }

    private func writeHistory(to writer: inout JSONWriter) {
        let nodes = tree.nodes
        writer.array("revs") { for index in nodes.indices { $0.value("\(tree.id(at: index))") } }
        writer.array("parents") { for node in nodes { $0.value(node.parent) } }
        let deleted = nodes.indices.filter { nodes[$0].isDeleted }
        if !deleted.isEmpty { writer.array("deleted") { for index in deleted { $0.value(index) } } }
        let bodies = nodes.indices.compactMap { index in bodyText(at: index).map { (index, $0) } }
        if !bodies.isEmpty {
            writer.object("bodymap") { writer in
                for (index, text) in bodies { writer.member("\(index)", text) }
            }
        }
        writer.array("channels") { writer in
            for node in nodes {
                let names = channels(ofSet: node.channelSet)
                guard !names.isEmpty else {
                    writer.null()
                    continue
                }
                writer.array { for name in names { $0.value(name) } }
            }
        }
    }
}

extension ChannelRecord {
    /// Writes null while the document is in the channel, else when it left.
    fileprivate func writeJSON(to writer: inout JSONWriter) {
        guard let removal else {
            writer.name(name)
            writer.null()
            return
        }
        writer.object(name) { writer in
            writer.member("seq", removal.sequence)
            writer.member("rev", "\(removal.revision)")
            if removal.isDeletion { writer.member("del", true) }
        }
    }
}

extension GrantTable {
    /// Writes a member for each principal: its targets with their sequences.
    fileprivate func writeMembers(to writer: inout JSONWriter) {
        var rest = grants[...]
        while let principal = rest.first?.principal {
            let end = rest.firstIndex { $0.principal != principal } ?? rest.endIndex
            writer.object(principal) { writer in
                for grant in rest[..<end] { writer.member(grant.target, grant.sequence) }
            }
            rest = rest[end...]
        }
    }
}
