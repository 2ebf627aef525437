internal import Bytes

/// Requests another node's samples of one bucket.
struct HistoryCall: ExtensibleFields, Hashable {
    var bucket = ""
    var zoom = StatisticsSampler.Zoom.minute

    mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&bucket, "bucket")
        try coder.choice(&zoom, "zoom")
    }
}
