internal import Bytes
internal import Seams
internal import Vocabulary
internal import Wire

/// The connections that are notified of changed maps.
final class MapSubscribers: Sendable {
    private struct State {
        var ports: [UInt64: any ConnectionPort] = [:]
        var lastNumber: UInt64 = 0
    }

    private let state = Guarded(State())

    func add(_ port: any ConnectionPort) -> UInt64 {
        state.withLock { state in
            state.lastNumber += 1
            state.ports[state.lastNumber] = port
            return state.lastNumber
        }
    }

    func remove(_ number: UInt64) { state.withLock { $0.ports[number] = nil } }

    /// Wakes all connections; each compares the maps with what its client has.
    func wakeAll() {
        for port in state.withLock({ Array($0.ports.values) }) { port.wake() }
    }
}

/// The maps that were pushed to one connection.
struct MapSubscription {
    let number: UInt64
    /// Epoch and revision of the newest map that the client has, or could have requested.
    var epoch: Int64 = 0
    var revision: Int64 = 0
    var pushedAt: UInt64?
    var isTimed = false
}

/// The sources of messages that a connection sends without a request.
struct Pushes {
    /// The client's subscription to changed maps; nil if it has none.
    var subscription: MapSubscription?
    /// Sends changes; nil before DCP_OPEN or TAP_CONNECT.
    var sender: (any ChangeSender)?

    @inline(__always) var isStreaming: Bool { sender != nil }
}

extension Connection {
    var subscription: MapSubscription? {
        get { pushes.subscription }
        set { pushes.subscription = newValue }
    }

    /// The producer that the client opened with DCP_OPEN.
    var producer: ClientProducer? { pushes.sender as? ClientProducer }

    /// Applies the notification features that the client agreed to in HELLO.
    func updateSubscription() {
        let isWanted =
            features.contains(.clusterMapNotification)
            || features.contains(.clusterMapNotificationBrief)
        if isWanted, subscription == nil {
            subscription = MapSubscription(number: service.subscribers.add(port))
            recordMapScope()
        } else if !isWanted {
            endSubscription()
        }
    }

    func endSubscription() {
        if let subscription { service.subscribers.remove(subscription.number) }
        subscription = nil
    }

    /// Starts notifications for another map: the client requests the current one itself.
    func recordMapScope() {
        guard subscription != nil, let current = currentConfiguration else { return }
        subscription?.epoch = current.epoch
        subscription?.revision = current.revision
    }

    /// The selected bucket's configuration, or the cluster's if no bucket is selected.
    ///
    /// Nil before the first one, and after the deletion of the selected bucket: the client would
    /// apply the cluster's to that bucket. A bucket that is not open on this node has one.
    var currentConfiguration: RenderedConfiguration? {
        if let bucket { return service.configuration(ofBucket: bucket.name) }
        guard let name = lostBucketName else { return service.globalConfiguration }
        // Another bucket of that name may have another password: only a user's privileges are known.
        guard case .user = login, mayUse(bucketNamed: name) else { return nil }
        return service.configuration(ofBucket: name)
    }

    /// Pushes a newer map to the client, not more often than every `Limits.pushMilliseconds`.
    func pushMap() {
        guard let known = subscription, login != .anonymous, mayReceiveConfiguration,
            let current = currentConfiguration,
            (current.epoch, current.revision) > (known.epoch, known.revision)
        else { return }
        let now = service.environment.time.monotonicNanoseconds()
        let pause = Limits.pushMilliseconds * 1_000_000
        if let last = known.pushedAt, now &- last < pause {
            guard !known.isTimed else { return }
            subscription?.isTimed = true
            service.lanes.nonIO.lane.post(after: pause - (now &- last)) { [port] in port.wake() }
            return
        }
        subscription?.isTimed = false
        subscription?.pushedAt = now
        subscription?.epoch = current.epoch
        subscription?.revision = current.revision
        let isBrief = features.contains(.clusterMapNotificationBrief)
        let name = Array((bucket?.name ?? lostBucketName ?? "").utf8)
        let json = isBrief ? [] : current.json
        name.withUnsafeBytes { name in
            json.withUnsafeBytes { json in
                ResponseEncoder.appendClusterMapChange(
                    to: output,
                    version: (current.epoch, current.revision),
                    bucket: ByteView(name),
                    config: ByteView(json),
                    datatype: isJSONAgreed && !isBrief ? .json : []
                )
            }
        }
    }
}
