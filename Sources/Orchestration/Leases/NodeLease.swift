package import Vocabulary

/// A node's own lease: the time until which it may serve the vBuckets that it is active for.
///
/// Voters promise it, not the leader, so the loss of the leader ends no lease. A promise counts
/// from the sending of the beat, whenever the answer arrives. The lease must hold under the newest
/// configuration that the node's own log or an unexpired answer names. That one may not be
/// committed, so the lease must also hold under the newest configuration of the own log, and under
/// the newest one that is known to be committed.
///
/// - An expired lease stays expired: only newer beats extend it.
package struct NodeLease: Sendable {
    /// The newest answers of one voter.
    private struct VoterAnswer: Sendable {
        /// Sending time of the newest beat that the voter granted; nil if it granted none.
        var grantedAt: UInt64?
        /// Sending time of the newest beat that the voter answered; `voters` is from that answer.
        var answeredAt: UInt64
        var voters: LeaseVoters
    }

    /// Beats that may still be answered: more than a node sends within a lease.
    private static let beatsKept = 16

    private let node: NodeNumber
    private let boot: UInt64
    private let terms: LeaseTerms
    private var sent: [(number: UInt64, at: UInt64)] = []
    private var number: UInt64 = 0
    private var answers: [NodeNumber: VoterAnswer] = [:]

    package init(_ terms: LeaseTerms, node: NodeNumber, boot: UInt64) {
        self.terms = terms
        self.node = node
        self.boot = boot
    }

    /// Makes the next beat; `now` must be read before the beat is sent.
    package mutating func beat(applied: UInt64, now: UInt64) -> LeaseBeat {
        number += 1
        sent.append((number, now))
        if sent.count > Self.beatsKept { sent.removeFirst() }
        return LeaseBeat(node: node, boot: boot, number: number, applied: applied)
    }

    /// Records a voter's answer; ignores answers to an earlier boot and to forgotten beats.
    package mutating func take(_ reply: LeaseReply) {
        guard reply.boot == boot, let beat = sent.first(where: { $0.number == reply.number })
        else { return }
        var answer =
            answers[reply.voter] ?? VoterAnswer(grantedAt: nil, answeredAt: 0, voters: reply.voters)
        if reply.decision == .granted { answer.grantedAt = max(answer.grantedAt ?? 0, beat.at) }
        if beat.at >= answer.answeredAt {
            answer.answeredAt = beat.at
            answer.voters = reply.voters
        }
        answers[reply.voter] = answer
    }

    /// The end of the lease by this node's clock; nil if there is none now.
    ///
    /// - Parameters:
    ///   - own: The newest configuration in this node's log.
    ///   - agreed: The previous configuration, if `own` is not known to be committed; else nil. The
    ///     voters that depose this node may never have received `own`, so the lease needs a
    ///     blocking set of every configuration.
    ///   - isDeposed: Whether this node's log has an unapplied entry that deposes the node: then
    ///     its own vote does not count.
    ///   - now: The time.
    /// - Returns: The time; `UInt64.max` if the node alone is a blocking set.
    package func end(
        own: LeaseVoters,
        agreed: LeaseVoters? = nil,
        isDeposed: Bool,
        now: UInt64
    ) -> UInt64? {
        var voters = own
        for answer in answers.values where answer.answeredAt + terms.leaseNanoseconds > now {
            if answer.voters.isNewer(than: voters) { voters = answer.voters }
        }
        let promised = { (voter: NodeNumber) -> UInt64? in
            if voter == node { return isDeposed ? nil : .max }
            guard let grantedAt = answers[voter]?.grantedAt else { return nil }
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
