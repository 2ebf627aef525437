package import Vocabulary

/// What one node knows of the others' lives: when it last heard of each, and what they say.
///
/// Every node keeps one and sends what it suspects with every beat, so a new leader knows at once
/// what the old one knew.
///
/// - A node that was silent is up again after some beats in a row; until then a single beat ends
///   its silence only if it is not known to come and go.
/// - What others say counts for a moment: they say it again with the next beat.
package struct FailureTable: Sendable {
    /// A node that another one has not heard of, and since when.
    package struct Suspicion: Hashable, Sendable {
        package var node: NodeNumber
        package var silentNanoseconds: UInt64

        package init(node: NodeNumber, silentNanoseconds: UInt64) {
            self.node = node
            self.silentNanoseconds = silentNanoseconds
        }
    }

    private struct Peer: Sendable {
        var heardAt: UInt64
        var hasBeenHeard = false
        /// Since when it is silent, as long as it is not up again.
        var silentSince: UInt64?
        var beatsInRow = 0
        var returnedAt: [UInt64] = []
        /// Bucket by bucket, by its own word.
        var isReady = false
        var said: [Suspicion] = []
        var saidAt: UInt64?
    }

    private static let millisecond: UInt64 = 1_000_000
    private static let suspectAfter = Limits.suspectMilliseconds * millisecond

    package let node: NodeNumber
    private let startedAt: UInt64
    private var peers: [NodeNumber: Peer] = [:]

    /// - Parameters:
    ///   - node: Whose table it is.
    ///   - now: Nodes that were neither heard of nor expected are silent from here.
    package init(of node: NodeNumber, now: UInt64) {
        self.node = node
        startedAt = now
    }

    /// These are the other members: whoever is new among them has not been silent before.
    package mutating func expect(_ others: [NodeNumber], now: UInt64) {
        for other in others where peers[other] == nil { peers[other] = Peer(heardAt: now) }
    }

    /// A beat came, or the answer to one.
    ///
    /// - Parameters:
    ///   - other: From whom.
    ///   - isReady: All its buckets can serve.
    ///   - suspicions: What it suspects; nil where it did not say.
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
        // Whoever is heard for the first time did not come back.
        if isFirst { peer.silentSince = nil }
        if let suspicions {
            peer.said = suspicions
            peer.saidAt = now
        }
        peers[other] = peer
    }

    /// It left the cluster, or was failed over: what comes next is a new beginning.
    package mutating func forget(_ other: NodeNumber) { peers[other] = nil }

    // MARK: What it knows itself

    /// How long nothing counts as heard.
    package func silence(of other: NodeNumber, now: UInt64) -> UInt64 {
        if other == node { return 0 }
        guard let peer = peers[other] else { return Self.since(startedAt, now) }
        let isComingAndGoing = isUnstable(other, now: now) && peer.silentSince != nil
        return Self.since(isComingAndGoing ? peer.silentSince ?? peer.heardAt : peer.heardAt, now)
    }

    package func hasHeard(of other: NodeNumber) -> Bool {
        other == node || peers[other]?.hasBeenHeard == true
    }

    package func isSuspect(_ other: NodeNumber, now: UInt64) -> Bool {
        silence(of: other, now: now) >= Self.suspectAfter
    }

    /// Heard of, long enough after a silence, and all its buckets ready.
    package func isUp(_ other: NodeNumber, now: UInt64) -> Bool {
        if other == node { return true }
        guard let peer = peers[other], peer.hasBeenHeard else { return false }
        return peer.silentSince == nil && peer.isReady && !isSuspect(other, now: now)
    }

    /// It fell silent and came back several times within a minute.
    package func isUnstable(_ other: NodeNumber, now: UInt64) -> Bool {
        let window = Limits.unstableWindowMilliseconds * Self.millisecond
        let recent = peers[other]?.returnedAt.count { Self.since($0, now) <= window } ?? 0
        return recent >= Limits.unstableReturns
    }

    /// What to send along with a beat.
    package func suspicions(among nodes: [NodeNumber], now: UInt64) -> [Suspicion] {
        nodes.filter { isSuspect($0, now: now) }.sorted().map {
            Suspicion(node: $0, silentNanoseconds: silence(of: $0, now: now))
        }
    }

    // MARK: What all know together

    /// Who has not heard of `other` for so long, by what they said a moment ago; itself included.
    package func seers(
        of other: NodeNumber,
        silentFor nanoseconds: UInt64,
        among nodes: [NodeNumber],
        now: UInt64
    ) -> [NodeNumber] {
        nodes.filter { seer in
            if seer == other { return false }
            if seer == node { return silence(of: other, now: now) >= nanoseconds }
            guard let said = fresh(seer, now: now) else { return false }
            return said.contains { $0.node == other && $0.silentNanoseconds >= nanoseconds }
        }.sorted()
    }

    /// Who sees more of the others than this node does: it would be the better leader.
    package func betterSighted(among nodes: [NodeNumber], now: UInt64) -> NodeNumber? {
        let mine = suspicions(among: nodes, now: now).count
        guard mine > 0 else { return nil }
        var best: (count: Int, node: NodeNumber)?
        for other in nodes.sorted() where other != node {
            guard let said = fresh(other, now: now) else { continue }
            let count = said.count { nodes.contains($0.node) }
            if count < best?.count ?? mine { best = (count, other) }
        }
        return best?.node
    }

    private func fresh(_ other: NodeNumber, now: UInt64) -> [Suspicion]? {
        guard let peer = peers[other], let saidAt = peer.saidAt,
            Self.since(saidAt, now) < Limits.tableFreshMilliseconds * Self.millisecond
        else { return nil }
        return peer.said
    }

    private static func since(_ then: UInt64, _ now: UInt64) -> UInt64 {
        now > then ? now - then : 0
    }
}
