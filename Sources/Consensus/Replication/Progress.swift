/// What the leader believes of one member.
///
/// - matched ≤ received < next.
package struct Progress: Hashable, Sendable {
    package enum State: Hashable, Sendable {
        /// Where the logs agree is not known: one message at a time. Can become: replicate,
        /// snapshot.
        case probe
        /// Entries are sent ahead of the answers. Can become: probe, snapshot.
        case replicate
        /// What it needs is no longer in the log; waits for the snapshot at this index to arrive.
        /// Can become: probe, replicate.
        case snapshot(LogIndex)
    }

    package internal(set) var state = State.probe
    /// It may be counted up to here.
    package internal(set) var matched: LogIndex = 0
    /// It has everything up to here on disk.
    package internal(set) var received: LogIndex = 0
    package internal(set) var next: LogIndex
    /// Said something since the leader last looked.
    package internal(set) var isActive = false
    package internal(set) var isProbing = false
    /// The last entries of appends that were not answered.
    package internal(set) var inFlight: [LogIndex] = []
    /// The newest round of heartbeats it answered.
    package internal(set) var round: UInt64 = 0

    init(next: LogIndex, isActive: Bool) {
        self.next = next
        self.isActive = isActive
    }

    package func isPaused(inFlightMax: Int) -> Bool {
        switch state {
        case .probe: isProbing
        case .replicate: inFlight.count >= inFlightMax
        case .snapshot: true
        }
    }

    mutating func becomeProbe() {
        // After a snapshot, go on behind it: it may have arrived unheard.
        if case .snapshot(let index) = state {
            next = max(received + 1, index + 1)
        } else {
            next = received + 1
        }
        state = .probe
        isProbing = false
        inFlight = []
    }

    mutating func becomeReplicate() {
        state = .replicate
        isProbing = false
        inFlight = []
        next = received + 1
    }

    mutating func becomeSnapshot(_ index: LogIndex) {
        state = .snapshot(index)
        isProbing = false
        inFlight = []
    }

    mutating func sent(through last: LogIndex?) {
        switch state {
        case .probe: isProbing = true
        case .replicate:
            guard let last else { return }
            next = last + 1
            inFlight.append(last)
        case .snapshot: preconditionFailure("nothing is sent while a snapshot is on its way")
        }
    }

    /// An answer arrived; says whether it told something new.
    mutating func accepted(received: LogIndex, acknowledged: LogIndex) -> Bool {
        let isNews = received > self.received || acknowledged > matched
        self.received = max(self.received, received)
        matched = max(matched, min(acknowledged, self.received))
        next = max(next, self.received + 1)
        inFlight.removeAll { $0 <= self.received }
        return isNews
    }

    /// An append did not fit; says whether the answer was to the newest question.
    mutating func rejected(_ previous: LogIndex, hint: LogIndex) -> Bool {
        switch state {
        case .replicate:
            if previous <= received { return false }
            becomeProbe()
            return true
        case .probe:
            guard next == previous + 1 else { return false }
            next = max(min(previous, hint + 1), received + 1)
            isProbing = false
            return true
        case .snapshot: return false
        }
    }
}
