package import Vocabulary

/// A node's own lease: until when it may answer for the vBuckets that it owns.
///
/// Voters promise it, not the leader: so a leader's death costs nobody a lease. It counts from when
/// the beat was sent, whenever the answer came, and under the newest configuration that the node's
/// own log or any unexpired answer names. Nobody knows that this one is agreed on, so under the own
/// log's it counts, too: under its newest, and under the newest that is known to be committed.
///
/// - A lease that is over is over for good: it is only ever prolonged by newer beats.
package struct NodeLease: Sendable {
    private struct Voice: Sendable {
        /// When the newest beat was sent that it granted.
        var grantedAt: UInt64?
        /// When the newest beat was sent that it answered, and what it named.
        var answeredAt: UInt64
        var voters: LeaseVoters
    }

    /// Beats that an answer may still come to: more than are sent within a lease.
    private static let beatsKept = 16

    private let node: NodeNumber
    private let boot: UInt64
    private let terms: LeaseTerms
    private var sent: [(number: UInt64, at: UInt64)] = []
    private var number: UInt64 = 0
    private var voices: [NodeNumber: Voice] = [:]

    package init(_ terms: LeaseTerms, node: NodeNumber, boot: UInt64) {
        self.terms = terms
        self.node = node
        self.boot = boot
    }

    /// The next beat; `now` is read before it leaves.
    package mutating func beat(applied: UInt64, now: UInt64) -> LeaseBeat {
        number += 1
        sent.append((number, now))
        if sent.count > Self.beatsKept { sent.removeFirst() }
        return LeaseBeat(node: node, boot: boot, number: number, applied: applied)
    }

    package mutating func take(_ reply: LeaseReply) {
        guard reply.boot == boot, let beat = sent.first(where: { $0.number == reply.number })
        else { return }
        var voice =
            voices[reply.voter] ?? Voice(grantedAt: nil, answeredAt: 0, voters: reply.voters)
        if reply.verdict == .granted { voice.grantedAt = max(voice.grantedAt ?? 0, beat.at) }
        if beat.at >= voice.answeredAt {
            voice.answeredAt = beat.at
            voice.voters = reply.voters
        }
        voices[reply.voter] = voice
    }

    /// When the lease ends by this node's clock, or nil where there is none now.
    ///
    /// - Parameters:
    ///   - own: The newest configuration in this node's log.
    ///   - agreed: The one before, where the newest is not known to be committed: whoever deposes this
    ///     node may never have had that one. All have to be blocked.
    ///   - isDeposed: Something in this node's log takes writing from it and is not applied: then
    ///     its own voice does not count.
    ///   - now: The time.
    /// - Returns: The moment; `UInt64.max` where the node blocks every quorum by itself.
    package func end(
        own: LeaseVoters,
        agreed: LeaseVoters? = nil,
        isDeposed: Bool,
        now: UInt64
    ) -> UInt64? {
        var voters = own
        for voice in voices.values where voice.answeredAt + terms.leaseNanoseconds > now {
            if voice.voters.isNewer(than: voters) { voters = voice.voters }
        }
        let promised = { (voter: NodeNumber) -> UInt64? in
            if voter == node { return isDeposed ? nil : .max }
            guard let grantedAt = voices[voter]?.grantedAt else { return nil }
            let until = grantedAt + terms.leaseNanoseconds
            return until > now ? until : nil
        }
        var end = UInt64.max
        for one in [voters, own, agreed ?? own] {
            guard let until = one.blocked(until: promised) else { return nil }
            end = min(end, until)
        }
        return end
    }
}
