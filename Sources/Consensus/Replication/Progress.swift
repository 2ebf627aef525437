/// The leader's view of one member.
///
/// - matched ≤ received < next.
package struct Progress: Hashable, Sendable {
    package enum State: Hashable, Sendable {
        /// It is not known where the logs agree: one append at a time. Can become: replicate,
        /// snapshot.
        case probe
        /// Entries are sent without waiting for acknowledgements. Can become: probe, snapshot.
        case replicate
        /// The member needs entries that are no longer in the log: the snapshot at this index is on
        /// its way. Can become: probe, replicate.
        case snapshot(LogIndex)
    }

    package internal(set) var state = State.probe
    /// The member counts in a majority up to here.
    package internal(set) var matched: LogIndex = 0
    /// The member has all entries up to here on disk.
    package internal(set) var received: LogIndex = 0
    /// The index of the next entry to send.
    package internal(set) var next: LogIndex
    /// The leader has received a message of the member since its last quorum check.
    package internal(set) var isActive = false
    /// In the state `probe`: an append was sent and is not answered.
    package internal(set) var isProbing = false
    /// The index of the last entry of each append that is not acknowledged.
    package internal(set) var inFlight: [LogIndex] = []
    /// The newest round of heartbeats that the member answered.
    package internal(set) var round: UInt64 = 0

    init(next: LogIndex, isActive: Bool) {
        self.next = next
        self.isActive = isActive
    }

    /// Whether nothing may be sent to the member now.
    package func isPaused(inFlightMax: Int) -> Bool {
        switch state {
        case .probe: isProbing
        case .replicate: inFlight.count >= inFlightMax
        case .snapshot: true
        }
    }

    mutating func becomeProbe() {
        // Continue after the snapshot: it may have arrived although no acknowledgement did.
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
        case .snapshot: preconditionFailure("no append is sent while a snapshot is under way")
        }
    }

    /// Records an acknowledgement.
    ///
    /// Returns true if it raises `received` or `matched`.
    mutating func accepted(received: LogIndex, acknowledged: LogIndex) -> Bool {
        let isNews = received > self.received || acknowledged > matched
        self.received = max(self.received, received)
        matched = max(matched, min(acknowledged, self.received))
        next = max(next, self.received + 1)
        inFlight.removeAll { $0 <= self.received }
        return isNews
    }

    /// Records a rejected append.
    ///
    /// Returns true if the rejection is not outdated, so that the leader has to probe again.
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
