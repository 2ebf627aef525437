/// Which sessions wait for changes of which channels and principals.
///
/// A change touches the sessions that listen to its channels, and no others: Sync Gateway wakes every
/// waiting client with each change. A session that is ready is not touched again until it reads, and it
/// holds a position in its feed, not a queue, so a slow client costs nothing.
///
/// - A session is in the list of ready ones once at most.
///
/// Memory: 16 bytes for each topic of a session. A change costs the number of its listeners, adding and
/// removing a listener a constant.
package struct Subscriptions: Sendable {
    package enum Topic: Hashable, Sendable {
        case channel(ChannelName)
        case principal(PrincipalKey)
    }

    /// Names a session until `remove`; its number is used again.
    package struct SessionID: Hashable, Sendable {
        package let slot: UInt32
    }

    private struct Listener {
        let session: UInt32
        /// Which of the session's topics it is.
        var slot: UInt32
    }

    private struct Subscription {
        let topic: UInt32
        /// The place of its listener in the topic's list.
        var index: UInt32
    }

    private struct Session {
        var subscriptions: [Subscription] = []
        var isReady = false
    }

    private var sessions: NumberedValues<Session> = NumberedValues()
    private var topics: [Topic: UInt32] = [:]
    private var names: [UInt32: Topic] = [:]
    private var lists: NumberedValues<[Listener]> = NumberedValues()
    private var ready: [SessionID] = []

    package init() {}

    package var topicCount: Int { topics.count }
    package var hasReadySessions: Bool { !ready.isEmpty }

    /// Adds a session that listens to nothing.
    package mutating func add() -> SessionID { SessionID(slot: sessions.insert(Session())) }

    /// Ends a session.
    package mutating func remove(_ session: SessionID) {
        listen(session, to: [])
        ready.removeAll { $0 == session }
        sessions.remove(session.slot)
    }

    /// Replaces what a session listens to.
    ///
    /// The session then has to read once: a change before this call does not make it ready.
    package mutating func listen(_ session: SessionID, to new: Set<Topic>) {
        while let last = sessions[session.slot].subscriptions.popLast() { removeListener(last) }
        for topic in new {
            let slot = topics[topic] ?? addTopic(topic)
            let subscription = Subscription(topic: slot, index: UInt32(lists[slot].count))
            let place = UInt32(sessions[session.slot].subscriptions.count)
            sessions[session.slot].subscriptions.append(subscription)
            lists[slot].append(Listener(session: session.slot, slot: place))
        }
    }

    /// Makes the sessions ready that listen to one of the topics; listeners of `*` get every change.
    package mutating func notify(_ changed: some Swift.Sequence<Topic>) {
        notify(.channel(.all))
        for topic in changed { notify(topic) }
    }

    /// Removes and returns the sessions that became ready, in the order in which they did.
    package mutating func removeReady() -> [SessionID] {
        defer { ready = [] }
        for session in ready { sessions[session.slot].isReady = false }
        return ready
    }

    private mutating func notify(_ topic: Topic) {
        guard let slot = topics[topic] else { return }
        for listener in lists[slot] where !sessions[listener.session].isReady {
            sessions[listener.session].isReady = true
            ready.append(SessionID(slot: listener.session))
        }
    }

    private mutating func addTopic(_ topic: Topic) -> UInt32 {
        let slot = lists.insert([])
        topics[topic] = slot
        names[slot] = topic
        return slot
    }

    /// Removes a listener; the last one of the list takes its place.
    private mutating func removeListener(_ subscription: Subscription) {
        let slot = subscription.topic
        let last = lists[slot].removeLast()
        if subscription.index < lists[slot].count {
            lists[slot][Int(subscription.index)] = last
            sessions[last.session].subscriptions[Int(last.slot)].index = subscription.index
        }
        guard lists[slot].isEmpty else { return }
        lists.remove(slot)
        if let topic = names.removeValue(forKey: slot) { topics[topic] = nil }
    }
}

/// Values under small numbers, which are used again.
struct NumberedValues<Value: Sendable>: Sendable {
    private var values: [Value?] = []
    private var free: [UInt32] = []

    mutating func insert(_ value: Value) -> UInt32 {
        if let slot = free.popLast() {
            values[Int(slot)] = value
            return slot
        }
        values.append(value)
        return UInt32(values.count - 1)
    }

    mutating func remove(_ slot: UInt32) {
        values[Int(slot)] = nil
        free.append(slot)
    }

    func holds(_ slot: UInt32) -> Bool { slot < values.count && values[Int(slot)] != nil }

    /// - Precondition: The slot has a value.
    subscript(slot: UInt32) -> Value {
        get {
            guard let value = values[Int(slot)] else { preconditionFailure("slot \(slot) is free") }
            return value
        }
        // In place: a copy of the value would copy its arrays.
        _modify {
            guard var value = values[Int(slot)] else { preconditionFailure("slot \(slot) is free") }
            values[Int(slot)] = nil
            defer { values[Int(slot)] = value }
            yield &value
        }
    }
}
