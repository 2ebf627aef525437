internal import Bytes
internal import Vocabulary

/// Revisions and checks for changes of the server groups and of the nodes' hosts.
extension ClusterState {
    /// A checksum of the groups and their nodes; a change of them names the one that it is based
    /// on.
    package var groupsRevision: UInt32 {
        let names = groups.map { "\($0.uuid)\u{0}\($0.name)" }
        let members = nodes.map { "\($0.number.value)\u{0}\($0.group)" }
        return Self.revision(of: names + [""] + members)
    }

    /// A checksum of all nodes' hosts.
    ///
    /// A new host is checked against the other nodes' hosts, because either all nodes or none may
    /// have a loopback address.
    package var namesRevision: UInt32 {
        Self.revision(of: nodes.map { "\($0.number.value)\u{0}\($0.host)" })
    }

    private static func revision(of lines: [String]) -> UInt32 {
        let text = lines.joined(separator: "\u{1}")
        return Array(text.utf8).withUnsafeBytes { CRC32.checksum(ByteView($0)) }
    }

    /// The server group with this UUID; nil if there is none.
    package func group(uuid: String) -> ServerGroup? { groups.first { $0.uuid == uuid } }

    /// The nodes of a server group; empty if the group is empty or unknown.
    package func nodes(ofGroup name: String) -> [NodeRecord] { nodes.filter { $0.group == name } }

    /// Checks a group's name.
    ///
    /// - Parameters:
    ///   - name: The name.
    ///   - uuid: The group that is renamed; nil for a new one.
    /// - Returns: The error for the user; nil if the name is valid and unused.
    package func refusal(ofGroupName name: String, except uuid: String? = nil) -> String? {
        guard !name.isEmpty, name.utf8.count <= 64 else { return "The name has 1 to 64 bytes" }
        guard !name.unicodeScalars.contains(where: { $0.value < 32 }) else {
            return "The name holds control characters"
        }
        let isTaken = groups.contains { $0.name == name && $0.uuid != uuid }
        return isTaken ? "already exists" : nil
    }
}
