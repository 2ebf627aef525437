internal import Bytes
internal import Orchestration
internal import Seams
internal import Vocabulary

/// Where the other nodes are dialled.
///
/// A node that was started at another port or address reaches the others and is reached by nobody: it
/// hears of no leader, so it cannot have its new address agreed on. So it says where it is to all whom
/// it reaches, and is dialled there at once; then it announces itself as any node does.
///
/// - What a node says of itself counts until the record says something new.
/// - It has proved who it is on the connection that it says so on, and does so again where it is
///   dialled.
extension ClusterMember {
    /// What a node said, and the record that it contradicts.
    struct Correction {
        var place: PeerPlace
        var record: PeerAddress
    }

    func handlePlaces() {
        calls.handleMessages(PeerKind.place) { [weak self] from, bytes in
            guard let self, let place = PeerPlace(bytes: bytes), place.node == from else { return }
            correct(place)
        }
    }

    private func correct(_ place: PeerPlace) {
        guard let node = state.members.first(where: { $0.number == place.node }), place.port != 0,
            corrections[place.node]?.place != place
        else { return }
        let record = PeerAddress(node)
        if (place.host, place.port) == (record.host, record.port) {
            guard corrections.removeValue(forKey: place.node) != nil else { return }
        } else {
            corrections[place.node] = Correction(place: place, record: record)
            tell(
                .warning,
                .node,
                "Node \(node.host):\(node.ports.admin) is reached by the other nodes at "
                    + "\(place.host):\(place.port) now, as it says itself, and was at "
                    + "\(record.host):\(record.port)."
            )
        }
        updateDirectory()
        calls.redial(place.node)
    }

    func place(of node: NodeRecord) -> PeerAddress {
        let record = PeerAddress(node)
        guard let said = corrections[node.number], said.record == record else {
            corrections[node.number] = nil
            return record
        }
        return PeerAddress(host: said.place.host, port: said.place.port, uuid: node.uuid)
    }
}

extension PeerAddress {
    fileprivate init(_ node: NodeRecord) {
        self.init(host: node.host, port: node.ports.peer, uuid: node.uuid)
    }
}
