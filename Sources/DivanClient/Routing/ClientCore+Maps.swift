internal import Bytes
internal import Seams
internal import Vocabulary
internal import Wire

/// The map: applied from any source, and requested where no node pushes it.
extension ClientCore {
    /// The least interval between requests for a map that failures cause.
    private static let urgentNanoseconds: UInt64 = 50_000_000

    func applyConfiguration(_ configuration: [UInt8], from node: ClusterNode) {
        let outcome = configuration.withUnsafeBytes {
            cache.apply(ByteView($0), host: node.address.host)
        }
        switch outcome {
        case .known: return
        case .refused(let why):
            environment.trace.debug("client", "\(node.address) sent an unusable map: \(why)")
            node.trouble = why
        case .applied:
            completeOpening()
            redispatchAll()
        }
    }

    /// Dispatches again by a new map: all operations that are not sent, and those that
    /// `recallIfMoved` recalls.
    private func redispatchAll() {
        for node in nodes { node.waiting = [] }
        for number in operations.keys.sorted() {
            guard let operation = operations[number] else { continue }
            switch operation.stage {
            case .unrouted, .waiting, .backingOff(_, forMap: true): dispatch(operation)
            case .inFlight(let node, let ticket): recallIfMoved(operation, node, ticket: ticket)
            case .backingOff, .over: continue
            }
        }
    }

    /// Recalls a request from a node that no longer has the copy, if the request is unsent or a
    /// read.
    ///
    /// A running node answers "not my vBucket", but a failed node never answers.
    private func recallIfMoved(_ operation: Operation, _ node: ClusterNode, ticket: UInt64) {
        guard let map = cache.current, let vBucket = operation.route?.vBucket,
            let route = KeyRouter(map).route(vBucket, operation.request.copy),
            route.node != node.address
        else { return }
        if operation.request.isWrite {
            guard node.connection?.withdraw(ticket) == true else { return }
            node.flights[ticket] = nil
            node.unanswered -= 1
        } else {
            _ = recall(ticket, from: node)
        }
        dispatch(operation)
    }

    // MARK: Requesting a map

    /// Requests a map if there is none, if operations wait for a node that is not connected, or if
    /// the polling interval has passed and a connected node does not push maps.
    func pollForMap() {
        let hasTrouble =
            cache.current == nil || nodes.contains { !$0.waiting.isEmpty && !$0.isReady }
        let ready = nodes.filter(\.isReady)
        let isPushed = !ready.isEmpty && ready.allSatisfy(\.pushesMaps)
        let isDue = now - lastMapRequest >= settings.pollMilliseconds * 1_000_000
        if hasTrouble {
            requestMap(isUrgent: true)
        } else if isDue && !isPushed {
            requestMap(isUrgent: false)
        }
    }

    /// Requests a map from a connected node, another one each time.
    ///
    /// If there is none, connects to one.
    func requestMap(isUrgent: Bool) {
        let time = now
        if isUrgent, time - lastMapRequest < ClientCore.urgentNanoseconds { return }
        lastMapRequest = time
        nextToQuery += 1
        let ready = nodes.filter(\.isReady)
        guard ready.isEmpty else { return requestMap(of: ready[nextToQuery % ready.count]) }
        let addresses = (cache.current?.nodes ?? []) + settings.bootstrap
        connectIfAllowed(node(at: addresses[nextToQuery % addresses.count]))
    }

    func requestMap(of node: ClusterNode) {
        guard node.isReady, !node.isMapRequested, let connection = node.connection else { return }
        node.isMapRequested = true
        lastMapRequest = now
        var request = Request(.getClusterConfig, isWrite: false)
        if node.features.contains(.clusterConfigWithKnownVersion), let map = cache.current {
            let known = ByteWriter(capacity: 16)
            known.append(bigEndian: map.revision.epoch)
            known.append(bigEndian: map.revision.number)
            request.extras = known.bytes
        }
        let ticket = nextNumber()
        addFlight(.map, ticket, on: node)
        connection.send(.init(ticket: ticket, vBucket: VBucketID(0), request: request))
    }
}
