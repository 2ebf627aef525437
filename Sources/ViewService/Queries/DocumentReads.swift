/// Decides how many documents of `include_docs` are read at a time.
///
/// The size of a document is known only after it was read. So few are read at once, and none is begun
/// once those that were read have enough bytes: the rows behind them are read in the next round.
package struct DocumentReads {
    /// Documents that are read at once; each may have 20 MiB.
    package static let readsMax = 4
    /// Bytes of a round after which no further read begins.
    package static let bytesMax = 8 << 20

    /// The documents that the round may read.
    private let count: Int
    package private(set) var bytes = 0
    package private(set) var running = 0
    /// The documents whose reads were begun: the first ones.
    package private(set) var begun = 0

    package init(count: Int) {
        self.count = count
    }

    /// Begins the next read.
    ///
    /// - Returns: The place of its document; nil if no read may begin now.
    package mutating func begin() -> Int? {
        guard begun < count, running < DocumentReads.readsMax, bytes < DocumentReads.bytesMax else {
            return nil
        }
        running += 1
        defer { begun += 1 }
        return begun
    }

    /// A read has ended with so many bytes.
    package mutating func end(bytes: Int) {
        running -= 1
        self.bytes += bytes
    }
}
