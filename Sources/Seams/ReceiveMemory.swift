/// Shares a bounded amount of memory among connections that receive large frames.
///
/// Every connection holds some bytes of its own (`ReceiveSizes.ownBytes`) outside this bound; only
/// what it holds beyond them is counted here. The value decides which connection may hold how much
/// and which one waits. The platform reads sockets accordingly.
///
/// - A claim is granted whole or not at all, and no connection holds a part of a claim while it
///   waits for the rest, except bytes that were read ahead.
/// - Claims are granted in the order in which they were made. A small one behind a large one waits:
///   otherwise small ones would starve it.
/// - Bytes that were read ahead never fill the memory that the largest claim needs, so the first
///   waiting claim is granted at the latest when every granted claim has ended.
package struct ReceiveMemory: Sendable {
    /// A connection that holds, or waits for, memory.
    package struct Holder: Hashable, Sendable {
        package let number: UInt64

        package init(_ number: UInt64) {
            self.number = number
        }
    }

    private struct Claim {
        let holder: Holder
        /// All that the holder wants to hold, including what it holds.
        let bytes: Int
    }

    /// Bytes that all connections together may hold.
    package let bytesMax: Int
    package private(set) var heldBytes = 0
    /// Up to here bytes may be read ahead of a claim.
    private let readAheadEnd: Int
    private var shares: [Holder: Int] = [:]
    private var waiting: [Claim] = []

    /// An unused memory.
    ///
    /// - Parameters:
    ///   - bytesMax: The bound; raised to what one claim and all reads ahead need.
    ///   - claimBytesMax: The largest claim.
    ///   - readAheadBytes: Bytes that all reactors together can add by one read each before the
    ///     bytes are counted.
    package init(bytesMax: Int, claimBytesMax: Int, readAheadBytes: Int) {
        self.bytesMax = max(bytesMax, claimBytesMax + 2 * readAheadBytes)
        readAheadEnd = self.bytesMax - claimBytesMax - readAheadBytes
    }

    package var waitingCount: Int { waiting.count }

    /// Whether a connection may read bytes before it knows whether it has to hold them.
    package var allowsReadAhead: Bool { waiting.isEmpty && heldBytes <= readAheadEnd }

    /// Bytes that `holder` holds; 0 for an unknown holder.
    package func share(of holder: Holder) -> Int { shares[holder] ?? 0 }

    package func isWaiting(_ holder: Holder) -> Bool { waiting.contains { $0.holder == holder } }

    /// Grants `holder` a total of `bytes` if no claim waits and they fit; otherwise changes nothing.
    package mutating func tryClaim(_ bytes: Int, for holder: Holder) -> Bool {
        let additional = bytes - share(of: holder)
        guard additional > 0 else { return true }
        guard waiting.isEmpty, heldBytes + additional <= bytesMax else { return false }
        setShare(of: holder, to: bytes)
        return true
    }

    /// Grants `holder` a total of `bytes`, now or when the claims before it are granted.
    ///
    /// - Returns: Whether `holder` has them now. Otherwise the claim waits, and a call that changes
    ///   what is held returns `holder` among those that were granted theirs.
    package mutating func claim(_ bytes: Int, for holder: Holder) -> Bool {
        precondition(!isWaiting(holder), "a connection waits for one claim at a time")
        if tryClaim(bytes, for: holder) { return true }
        waiting.append(Claim(holder: holder, bytes: bytes))
        return false
    }

    /// Sets what `holder` holds, and withdraws its claim if it waits for one.
    ///
    /// More than before is for bytes that have arrived already; less returns memory.
    ///
    /// - Returns: The connections whose claims are granted by that, in order.
    package mutating func hold(_ bytes: Int, by holder: Holder) -> [Holder] {
        waiting.removeAll { $0.holder == holder }
        setShare(of: holder, to: bytes)
        return grantWaiting()
    }

    private mutating func grantWaiting() -> [Holder] {
        var granted: [Holder] = []
        for claim in waiting {
            let additional = claim.bytes - share(of: claim.holder)
            guard heldBytes + additional <= bytesMax else { break }
            setShare(of: claim.holder, to: claim.bytes)
            granted.append(claim.holder)
        }
        waiting.removeFirst(granted.count)
        return granted
    }

    private mutating func setShare(of holder: Holder, to bytes: Int) {
        heldBytes += bytes - share(of: holder)
        shares[holder] = bytes > 0 ? bytes : nil
    }
}
