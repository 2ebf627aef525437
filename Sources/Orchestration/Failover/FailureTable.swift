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
        /// The part of the silence through which its machine has refused connections: 0 if it has not.
        package var refusedNanoseconds: UInt64

        package init(node: NodeNumber, silentNanoseconds: UInt64, refusedNanoseconds: UInt64 = 0) {
            self.node = node
            self.silentNanoseconds = silentNanoseconds
            self.refusedNanoseconds = refusedNanoseconds
        }

        /// Whether the silence has one of two lengths.
        func lasts(_ bound: SilenceBound) -> Bool {
            silentNanoseconds >= bound.silentNanoseconds
                || refusedNanoseconds >= bound.refusedNanoseconds
        }
    }

    /// The length of a silence after which a node counts as down, without and with the proof that its process is
    /// gone.
    package struct SilenceBound: Hashable, Sendable {
        package var silentNanoseconds: UInt64
        /// Applies while the machine of the node refuses connections; `.max` if that is no proof.
        package var refusedNanoseconds: UInt64 = .max

        package init(silentNanoseconds: UInt64, refusedNanoseconds: UInt64 = .max) {
            self.silentNanoseconds = silentNanoseconds
            self.refusedNanoseconds = refusedNanoseconds
        }
    }

    /// The record of one other node.
    private struct Peer: Sendable {
        var heardAt: UInt64
        var hasBeenHeard = false
        /// Start of the silence, until the node is up again; nil if it is up.
        var silentSince: UInt64?
        var beatsInRow = 0
        /// The last connection attempt, if it was refused.
        var refusedAt: UInt64?
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

    /// Records that the kernel of a node's machine refused a connection: no process listens at the node's address.
    package mutating func refused(_ other: NodeNumber, now: UInt64) {
        peers[other]?.refusedAt = now
    }

    /// Records a connection attempt that was not refused: a process listens there, or the machine does not answer.
    package mutating func attempted(_ other: NodeNumber) { peers[other]?.refusedAt = nil }

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

    /// Nanoseconds from the node's last beat until the last refused connection attempt; 0 if the last attempt was not
    /// refused, or no beat was ever received: a cluster that starts has nodes whose process was not there before.
    package func refusedSilence(of other: NodeNumber) -> UInt64 {
        guard let peer = peers[other], peer.hasBeenHeard, let refusedAt = peer.refusedAt else {
            return 0
        }
        return Self.since(peer.heardAt, refusedAt)
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
        nodes.filter { isSuspect($0, now: now) }.sorted().map { suspicion(of: $0, now: now) }
    }

    private func suspicion(of other: NodeNumber, now: UInt64) -> Suspicion {
        Suspicion(
            node: other,
            silentNanoseconds: silence(of: other, now: now),
            refusedNanoseconds: refusedSilence(of: other)
        )
    }

    // MARK: The view of all nodes

    /// The nodes that report `other` silent for at least this long, by their recent beats; includes
    /// this node.
    ///
    /// Sorted; without `other` itself.
    package func seers(
        of other: NodeNumber,
        silentFor bound: SilenceBound,
        among nodes: [NodeNumber],
        now: UInt64
    ) -> [NodeNumber] {
        nodes.filter { seer in
            if seer == other { return false }
            if seer == node { return suspicion(of: other, now: now).lasts(bound) }
            guard let reported = fresh(seer, now: now) else { return false }
            return reported.contains { $0.node == other && $0.lasts(bound) }
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
        try coder.field(&refusedNanoseconds, "silence with refused connections")
    }
}
