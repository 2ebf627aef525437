internal import Bytes
internal import Seams
internal import Vocabulary
internal import Wire

/// The map: taken in from wherever it comes, asked for where nobody sends it.
extension ClientCore {
    /// Not more often than this is a map asked for because of trouble.
    private static let urgentNanoseconds: UInt64 = 50_000_000

    func take(configuration: [UInt8], from node: ClusterNode) {
        let outcome = configuration.withUnsafeBytes {
            cache.take(ByteView($0), host: node.address.host)
        }
        switch outcome {
        case .known: return
        case .refused(let why):
            environment.trace.debug("client", "\(node.address) sent a map of no use: \(why)")
            node.trouble = why
        case .taken:
            hasOpened()
            sendAnew()
        }
    }

    /// Under a new map everything that is not under way goes where it says, and reads too.
    private func sendAnew() {
        for node in nodes { node.waiting = [] }
        for number in operations.keys.sorted() {
            guard let operation = operations[number] else { continue }
            switch operation.stage {
            case .unrouted, .waiting, .resting(_, forMap: true): dispatch(operation)
            case .flying(let node, let ticket): recallIfMoved(operation, node, ticket)
            case .resting, .over: continue
            }
        }
    }

    /// A request that has not left, or only reads, does not wait for a node that has lost its copy.
    ///
    /// A node that is still there answers that it is not its own; one that is gone never does.
    private func recallIfMoved(_ operation: Operation, _ node: ClusterNode, _ ticket: UInt64) {
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

    // MARK: Asking

    func pollForMap(at time: UInt64) {
        let hasTrouble =
            cache.current == nil || nodes.contains { !$0.waiting.isEmpty && !$0.isReady }
        let ready = nodes.filter(\.isReady)
        let isPushed = !ready.isEmpty && ready.allSatisfy(\.pushesMaps)
        let isDue = time - askedForMap >= settings.pollMilliseconds * 1_000_000
        if hasTrouble {
            askForMap(isUrgent: true)
        } else if isDue && !isPushed {
            askForMap(isUrgent: false)
        }
    }

    /// Asks one node, another each time; where none is connected, tries to connect to one.
    func askForMap(isUrgent: Bool) {
        let time = now
        if isUrgent, time - askedForMap < ClientCore.urgentNanoseconds { return }
        askedForMap = time
        nextToAsk += 1
        let ready = nodes.filter(\.isReady)
        guard ready.isEmpty else { return askForMap(of: ready[nextToAsk % ready.count]) }
        let addresses = (cache.current?.nodes ?? []) + settings.bootstrap
        connectIfAllowed(node(at: addresses[nextToAsk % addresses.count]))
    }

    func askForMap(of node: ClusterNode) {
        guard node.isReady, !node.isAskedForMap, let connection = node.connection else { return }
        node.isAskedForMap = true
        askedForMap = now
        var request = Request(.getClusterConfig, isWrite: false)
        if node.features.contains(.clusterConfigWithKnownVersion), let map = cache.current {
            let known = ByteWriter(capacity: 16)
            known.append(bigEndian: map.revision.epoch)
            known.append(bigEndian: map.revision.number)
            request.extras = known.bytes
        }
        let ticket = nextNumber()
        fly(.map, ticket, node)
        connection.send(.init(ticket: ticket, vBucket: VBucketID(0), request: request))
    }
}
