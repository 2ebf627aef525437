package import Bytes
package import Seams

/// The latest events of this node, for `/logs`: a few hundred, in memory.
package final class EventLog: Sendable {
    package enum Kind: String, Sendable {
        case node = "divan_node"
        case bucket = "divan_bucket"
        case settings = "divan_settings"
        case rebalance = "divan_rebalance"
    }

    package struct Entry: Hashable, Sendable {
        package private(set) var severity: Severity
        package private(set) var kind: Kind
        package private(set) var text: String
        package private(set) var milliseconds: UInt64
        /// The log index of the change that each node writes as an event; 0 for other events.
        package private(set) var index: UInt64
    }

    /// A change of the agreed state, as an event tells it.
    struct Change: Hashable {
        let index: UInt64
        let text: String
    }

    /// Several pages of a console.
    private static let entriesMax = 512

    private let entries = Guarded<[Entry]>([])
    /// Of errors that user interfaces report, which are no events.
    let clientReports = Guarded(ClientReportBudget())

    package init() {}

    package func append(
        _ severity: Severity,
        _ kind: Kind,
        _ text: String,
        atMilliseconds milliseconds: UInt64,
        index: UInt64 = 0
    ) {
        let entry = Entry(
            severity: severity,
            kind: kind,
            text: text,
            milliseconds: milliseconds,
            index: index
        )
        entries.withLock { entries in
            entries.append(entry)
            if entries.count > Self.entriesMax { entries.removeFirst() }
        }
    }

    /// Appends an event of this moment, and logs it.
    ///
    /// `bucket` is nil if the event is about no single bucket. `index` is the log index of a change that
    /// each node writes as an event.
    func log(
        _ severity: Severity,
        _ kind: Kind,
        of bucket: String? = nil,
        index: UInt64 = 0,
        _ text: String,
        _ environment: Environment
    ) {
        let trace = environment.trace
        if trace.threshold <= severity {
            trace.log(severity, "cluster", bucket: bucket, message: text)
        }
        let now = environment.time.wallNanoseconds() / 1_000_000
        append(severity, kind, text, atMilliseconds: now, index: index)
    }

    /// All kept events, oldest first.
    package func all() -> [Entry] { entries.withLock { $0 } }

    /// The newest `countMax` events not older than `milliseconds`, oldest first.
    func newest(_ countMax: Int, sinceMilliseconds milliseconds: UInt64) -> [Entry] {
        all().filter { $0.milliseconds >= milliseconds }.suffix(max(countMax, 0))
    }
}

extension EventLog.Entry {
    /// Nil for an event of one node.
    var change: EventLog.Change? {
        index == 0 ? nil : EventLog.Change(index: index, text: text)
    }
}

extension EventLog.Entry: ExtensibleFields {
    package init() { self.init(severity: .info, kind: .node, text: "", milliseconds: 0, index: 0) }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.choice(&severity, "severity")
        try coder.choice(&kind, "kind")
        try coder.field(&text, "text")
        try coder.field(&milliseconds, "time")
        try coder.field(&index, "index")
    }
}
