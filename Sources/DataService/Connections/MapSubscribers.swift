internal import Bytes
internal import Seams
internal import Vocabulary
internal import Wire

/// The connections that are told of changed maps.
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

    /// Each looks for itself what is news to it.
    func wakeAll() {
        for port in state.withLock({ Array($0.ports.values) }) { port.wake() }
    }
}

/// What one connection was told of maps, and when.
struct MapSubscription {
    let number: UInt64
    /// Epoch and revision of what it knows, or could have asked for.
    var epoch: Int64 = 0
    var revision: Int64 = 0
    var pushedAt: UInt64?
    var isTimed = false
}

extension Connection {
    /// What the client agreed to in HELLO, carried out.
    func noteSubscription() {
        let isWanted =
            features.contains(.clusterMapNotification)
            || features.contains(.clusterMapNotificationBrief)
        if isWanted, subscription == nil {
            subscription = MapSubscription(number: service.subscribers.add(port))
            noteMapScope()
        } else if !isWanted {
            endSubscription()
        }
    }

    func endSubscription() {
        if let subscription { service.subscribers.remove(subscription.number) }
        subscription = nil
    }

    /// From here on another map is its: what there is it will ask for itself.
    func noteMapScope() {
        guard subscription != nil, let current = currentConfiguration else { return }
        subscription?.epoch = current.epoch
        subscription?.revision = current.revision
    }

    /// The selected bucket's map, or the cluster's where none is.
    var currentConfiguration: RenderedConfiguration? {
        guard let bucket else { return service.globalConfiguration }
        return service.configuration(ofBucket: bucket.name)
    }

    /// Tells the client of a newer map, not more often than is good for both.
    func pushMap() {
        guard let known = subscription, login != .nobody, let current = currentConfiguration,
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
        let name = Array((bucket?.name ?? "").utf8)
        let json = isBrief ? [] : current.json
        name.withUnsafeBytes { name in
            json.withUnsafeBytes { json in
                ResponseEncoder.appendClusterMapChange(
                    to: output,
                    epoch: current.epoch,
                    revision: current.revision,
                    bucket: ByteView(name),
                    config: ByteView(json)
                )
            }
        }
    }
}
