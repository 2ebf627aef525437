/// A client with a token, which moves between collectors.
///
/// A token is a sequence, or T:S: the client has everything below the grant T, and of the rows
/// that the grant adds those through S.
struct Reader {
    var collector = 0
    /// The grant T of a token T:S; 0 if the token is a sequence.
    var trigger: Int32 = 0
    var since: Int32 = 0
    /// The place after each document's newest received version; 0 for none.
    var received: [9 of Int16]
    var page = Page()

    init() { received = .init(repeating: 0) }

    /// The channel of a key: two of three keys of a vBucket are documents.
    ///
    /// The third key of vBucket 0 is the principal (2); that of other vBuckets is not used.
    static func channel(of key: Int) -> Int { key % 3 }

    mutating func begin(backfillOf grant: Int32) {
        trigger = grant
        since = 0
    }

    mutating func endBackfill() {
        since = trigger
        trigger = 0
    }
}

/// A page of the past that is being read from the owners' indexes, one vBucket a step.
struct Page {
    var isOpen = false
    /// The sequence through which the page is complete.
    var cut: Int32 = 0
    /// The highest position of an index that was read.
    var highest: Int32 = 0
    var fetched = Members()
    var rows: [9 of Row]
    var granted: Int32 = 0

    init() { rows = .init(repeating: Row()) }

    /// The row with the lowest sequence above `since` and through `end`, in the channels of a
    /// client with the grant `grant`; nil if there is none.
    func first(above since: Int32, through end: Int32, grant: Int32?) -> Row? {
        var first: Row?
        for key in 0..<9 where rows[key].sequence > since && rows[key].sequence <= end {
            let channel = Reader.channel(of: key)
            if channel == 2 || channel == 1 && rows[key].sequence <= grant ?? .max { continue }
            if rows[key].sequence < first?.sequence ?? .max { first = rows[key] }
        }
        return first
    }

    /// The next row that a grant adds: in channel 1, above `since` and below the grant.
    func firstAdded(above since: Int32, by grant: Int32) -> Row? {
        var first: Row?
        for key in 0..<9 where Reader.channel(of: key) == 1 {
            let sequence = rows[key].sequence
            guard sequence > since, sequence < grant else { continue }
            if sequence < first?.sequence ?? .max { first = rows[key] }
        }
        return first
    }
}
