package import Bytes
package import Vocabulary

/// One node's failure detector: when each other node sent its last beat, and which nodes that one
/// suspects.
///
/// Every node keeps a table and sends its suspicions with every beat. So a new leader knows at once
/// what the old one knew.
///
/// - A silent node is up again after several beats in a row. Until then a single beat ends its
///   silence only if the node is not unstable.
/// - Suspicions of other nodes are valid for a short time: each beat repeats them.
package struct FailureTable: Sendable {
    /// A silent node, as reported by another node, and the duration of its silence.
    package struct Suspicion: Hashable, Sendable {
        package var node: NodeNumber
        package var silentNanoseconds: UInt64

        package init(node: NodeNumber, silentNanoseconds: UInt64) {
            self.node = node
            self.silentNanoseconds = silentNanoseconds
        }
    }

    /// The record of one other node.
    private struct Peer: Sendable {
        var heardAt: UInt64
        var hasBeenHeard = false
        /// Start of the silence, until the node is up again; nil if it is up.
        var silentSince: UInt64?
        var beatsInRow = 0
        /// The last times at which it came up after a silence, oldest first.
        var returnedAt: [UInt64] = []
        /// Whether it reported that all its buckets can serve.
        var isReady = false
        /// Its last reported suspicions.
        var suspicions: [Suspicion] = []
        var suspicionsAt: UInt64?
    }

    private static let millisecond: UInt64 = 1_000_000
    private static let suspectAfter = Limits.suspectMilliseconds * millisecond

    package let node: NodeNumber
    private let startedAt: UInt64
    private var peers: [NodeNumber: Peer] = [:]

    /// - Parameters:
    ///   - node: The node that keeps the table.
    ///   - now: The start of silence for nodes that are not expected and have sent no beat.
    package init(of node: NodeNumber, now: UInt64) {
        self.node = node
        startedAt = now
    }

    /// Adds other members: the silence of a new one starts now.
    package mutating func expect(_ others: [NodeNumber], now: UInt64) {
        for other in others where peers[other] == nil { peers[other] = Peer(heardAt: now) }
    }

    /// Records a received beat, or the answer to a beat.
    ///
    /// - Parameters:
    ///   - other: The sender.
    ///   - isReady: Whether all its buckets can serve.
    ///   - suspicions: The sender's suspicions; nil if the message has none, which keeps the last
    ///     ones.
    ///   - now: The time.
    package mutating func heard(
        _ other: NodeNumber,
        isReady: Bool = true,
        suspicions: [Suspicion]? = nil,
        now: UInt64
    ) {
        var peer = peers[other] ?? Peer(heardAt: startedAt)
        if now >= peer.heardAt + Self.suspectAfter || !peer.hasBeenHeard {
            if peer.silentSince == nil { peer.silentSince = peer.heardAt }
            peer.beatsInRow = 0
        }
        let isFirst = !peer.hasBeenHeard
        peer.heardAt = now
        peer.hasBeenHeard = true
        peer.isReady = isReady
        peer.beatsInRow += 1
        if peer.silentSince != nil, peer.beatsInRow >= Limits.beatsUntilUp {
            peer.silentSince = nil
            peer.returnedAt.append(now)
            if peer.returnedAt.count > Limits.unstableReturns { peer.returnedAt.removeFirst() }
        }
        // The first beat of a node is not a return after a silence.
        if isFirst { peer.silentSince = nil }
        if let suspicions {
            peer.suspicions = suspicions
            peer.suspicionsAt = now
        }
        peers[other] = peer
    }

    /// Removes a node that left the cluster or was failed over: a later beat starts a new record.
    package mutating func forget(_ other: NodeNumber) { peers[other] = nil }

    // MARK: This node's own view

    /// Nanoseconds since the node's last beat; 0 for this node.
    ///
    /// For an unstable node: since it last became silent, even if single beats arrived.
    package func silence(of other: NodeNumber, now: UInt64) -> UInt64 {
        if other == node { return 0 }
        guard let peer = peers[other] else { return Self.since(startedAt, now) }
        let isComingAndGoing = isUnstable(other, now: now) && peer.silentSince != nil
        return Self.since(isComingAndGoing ? peer.silentSince ?? peer.heardAt : peer.heardAt, now)
    }

    /// Whether a beat of the node was received; true for this node.
    package func hasHeard(of other: NodeNumber) -> Bool {
        other == node || peers[other]?.hasBeenHeard == true
    }

    /// Whether the node is silent for `Limits.suspectMilliseconds` or longer.
    package func isSuspect(_ other: NodeNumber, now: UInt64) -> Bool {
        silence(of: other, now: now) >= Self.suspectAfter
    }

    /// Whether the node sends beats, has ended any silence, and reports all its buckets ready.
    package func isUp(_ other: NodeNumber, now: UInt64) -> Bool {
        if other == node { return true }
        guard let peer = peers[other], peer.hasBeenHeard else { return false }
        return peer.silentSince == nil && peer.isReady && !isSuspect(other, now: now)
    }

    /// Whether the node became silent and returned several times within
    /// `Limits.unstableWindowMilliseconds`.
    package func isUnstable(_ other: NodeNumber, now: UInt64) -> Bool {
        let window = Limits.unstableWindowMilliseconds * Self.millisecond
        let recent = peers[other]?.returnedAt.count { Self.since($0, now) <= window } ?? 0
        return recent >= Limits.unstableReturns
    }

    /// This node's suspicions, sorted by node, to be sent with a beat.
    package func suspicions(among nodes: [NodeNumber], now: UInt64) -> [Suspicion] {
        nodes.filter { isSuspect($0, now: now) }.sorted().map {
            Suspicion(node: $0, silentNanoseconds: silence(of: $0, now: now))
        }
    }

    // MARK: The view of all nodes

    /// The nodes that report `other` silent for at least this long, by their recent beats; includes
    /// this node.
    ///
    /// Sorted; without `other` itself.
    package func seers(
        of other: NodeNumber,
        silentFor nanoseconds: UInt64,
        among nodes: [NodeNumber],
        now: UInt64
    ) -> [NodeNumber] {
        nodes.filter { seer in
            if seer == other { return false }
            if seer == node { return silence(of: other, now: now) >= nanoseconds }
            guard let reported = fresh(seer, now: now) else { return false }
            return reported.contains { $0.node == other && $0.silentNanoseconds >= nanoseconds }
        }.sorted()
    }

    /// The suspicions of a node; nil if they are too old.
    private func fresh(_ other: NodeNumber, now: UInt64) -> [Suspicion]? {
        guard let peer = peers[other], let reportedAt = peer.suspicionsAt,
            Self.since(reportedAt, now) < Limits.tableFreshMilliseconds * Self.millisecond
        else { return nil }
        return peer.suspicions
    }

    private static func since(_ then: UInt64, _ now: UInt64) -> UInt64 {
        now > then ? now - then : 0
    }
}

extension FailureTable.Suspicion: ExtensibleFields {
    package init() { self.init(node: NodeNumber(0), silentNanoseconds: 0) }

    package mutating func code(_ coder: inout some Coder) throws(CodingFailure) {
        try coder.field(&node, "suspect")
        try coder.field(&silentNanoseconds, "silence")
    }
}
