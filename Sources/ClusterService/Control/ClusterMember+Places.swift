internal import Orchestration
internal import Seams
internal import Vocabulary

/// The addresses of the other nodes.
///
/// A node that was started with another port or address can connect to the other nodes, but they
/// cannot connect to it. It has no leader then, so the cluster cannot agree on its new address.
/// Therefore it sends its address to every node to which it is connected. These nodes connect to
/// the new address at once, and the node announces its address as usual.
///
/// - An address that a node sent counts until the node's record changes.
/// - The node has proved its identity on the connection that carries the address, and proves it
///   again when another node connects to that address.
extension ClusterMember {
    /// The address that a node sent, and the record that it replaces.
    struct Correction {
        var place: PeerPlace
        var record: PeerAddress
    }

    func handlePlaces() {
        calls.handleMessages(PeerKind.place) { [weak self] from, bytes in
            guard let self, let place = PeerPlace(message: bytes), place.node == from else {
                return
            }
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
            logEvent(
                .warning,
                .node,
                "Node \(node.host):\(node.ports.admin) now listens for other nodes at "
                    + "\(place.host):\(place.port) instead of \(record.host):\(record.port), as "
                    + "the node itself reports."
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
        return PeerAddress(
            host: said.place.host,
            port: said.place.port,
            key: node.keys.identity
        )
    }
}

extension PeerAddress {
    fileprivate init(_ node: NodeRecord) {
        self.init(host: node.host, port: node.ports.peer, key: node.keys.identity)
    }
}
