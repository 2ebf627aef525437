package import Bytes

/// Counts of cluster events since the cluster was created; monitoring tools read them.
package struct ClusterCounters: Hashable, Sendable, CodedFields {
    /// The names are Couchbase's; the raw values are stored on disk and must never change.
    package enum Event: UInt8, CaseIterable, Sendable {
        case rebalanceStart = 0
        case rebalanceSuccess = 1
        case rebalanceStop = 2
        case rebalanceFail = 3
        case gracefulFailoverStart = 4
        case gracefulFailoverSuccess = 5
        case gracefulFailoverStop = 6
        case gracefulFailoverFail = 7
        /// Hard failovers, manual and automatic.
        case failover = 8
        /// Nodes that were failed over by hard failovers.
        case failoverNode = 9
        case quorumFailover = 10

        package var name: String {
            switch self {
            case .rebalanceStart: "rebalance_start"
            case .rebalanceSuccess: "rebalance_success"
            case .rebalanceStop: "rebalance_stop"
            case .rebalanceFail: "rebalance_fail"
            case .gracefulFailoverStart: "graceful_failover_start"
            case .gracefulFailoverSuccess: "graceful_failover_success"
            case .gracefulFailoverStop: "graceful_failover_stop"
            case .gracefulFailoverFail: "graceful_failover_fail"
            case .failover: "failover"
            case .failoverNode: "failover_node"
            case .quorumFailover: "quorum_failover_success"
            }
        }

        static func started(_ kind: RebalanceRecord.Kind) -> Event {
            kind == .gracefulFailover ? .gracefulFailoverStart : .rebalanceStart
        }

        static func ended(
            _ kind: RebalanceRecord.Kind,
            _ ending: RebalanceOutcome.Ending
        ) -> Event {
            switch (kind == .gracefulFailover, ending) {
            case (false, .completed): .rebalanceSuccess
            case (false, .stopped): .rebalanceStop
            case (false, .failed): .rebalanceFail
            case (true, .completed): .gracefulFailoverSuccess
            case (true, .stopped): .gracefulFailoverStop
            case (true, .failed): .gracefulFailoverFail
            }
        }
    }

    /// By the event's number.
    private(set) var counts = [UInt64](repeating: 0, count: Event.allCases.count)

    package init() {}

    mutating func count(_ event: Event, by amount: Int = 1) {
        counts[Int(event.rawValue)] += UInt64(amount)
    }

    package subscript(event: Event) -> UInt64 { counts[Int(event.rawValue)] }

    /// Events that have occurred at least once, in the order of their raw values.
    package var named: [(name: String, count: UInt64)] {
        Event.allCases.filter { self[$0] > 0 }.map { ($0.name, self[$0]) }
    }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        var stored = counts
        try coder.field(&stored, "counters")
        // The counts that any release stored; counts of unknown events are dropped.
        for (event, count) in stored.prefix(counts.count).enumerated() { counts[event] = count }
    }
}
