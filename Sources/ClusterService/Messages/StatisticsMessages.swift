internal import Bytes

/// Requests the newest events of another node's event log.
struct EventsCall: ExtensibleFields, Hashable {
    /// Requests only events from this wall-clock time on.
    var sinceMilliseconds: UInt64 = 0
    var countMax = 0

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&sinceMilliseconds, "start")
        try coder.field(&countMax, "number of events")
    }
}

/// The requested events, oldest first.
struct EventsAnswer: ExtensibleFields, Hashable {
    var entries: [EventLog.Entry] = []

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&entries, "events")
    }
}

/// Requests another node's samples of one bucket.
struct HistoryCall: ExtensibleFields, Hashable {
    var bucket = ""
    var zoom = StatisticsSampler.Zoom.minute

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&bucket, "bucket")
        try coder.choice(&zoom, "zoom")
    }
}
