import Orchestration
import Testing
import Vocabulary

/// Leases promised by voters: promises, delayed acknowledgements, and the end of a lease.
@Suite struct LeaseTests {
    private let terms = LeaseTerms(leaseNanoseconds: 1_000, ratePerMille: 10)
    private let one = NodeNumber(1)
    private let two = NodeNumber(2)

    private func voters(_ numbers: [UInt16], index: UInt64 = 1) -> LeaseVoters {
        var voters = LeaseVoters()
        (voters.term, voters.index) = (1, index)
        voters.voters = numbers.map { NodeNumber($0) }
        return voters
    }

    /// A beat from node 1 to voter 2, and the answer.
    private func exchange(
        _ lease: inout NodeLease,
        _ promises: inout LeasePromises,
        applied: UInt64 = 0,
        naming: LeaseVoters,
        at now: UInt64,
        answered: UInt64
    ) -> LeaseReply.Decision {
        let beat = lease.beat(applied: applied, now: now)
        let reply = promises.answer(beat, naming: naming, by: two, now: answered)
        lease.take(reply)
        return reply.decision
    }

    @Test func promiseOutlastsALeaseByTheClocksDrift() {
        #expect(terms.promiseNanoseconds == 1_021)
        #expect(LeaseTerms().leaseNanoseconds == 500_000_000)
    }

    @Test(arguments: [(1, true), (2, true), (3, false), (4, false), (5, false)])
    func voterOfOneOrTwoIsABlockingSet(_ count: UInt16, _ isAlone: Bool) {
        let lease = NodeLease(terms, node: one, boot: 1)
        let own = voters(Array(1...count))
        #expect((lease.end(own: own, isDeposed: false, now: 5) == .max) == isAlone)
        #expect(lease.end(own: own, isDeposed: true, now: 5) == nil)
    }

    @Test func leaseStartsWhenTheBeatIsSent() {
        var lease = NodeLease(terms, node: one, boot: 1)
        var promises = LeasePromises(terms, now: 0)
        let three = voters([1, 2, 3])
        #expect(exchange(&lease, &promises, naming: three, at: 100, answered: 900) == .granted)
        #expect(lease.end(own: three, isDeposed: false, now: 900) == 1_100)
        #expect(lease.end(own: three, isDeposed: false, now: 1_100) == nil)
        // A deposed node does not count itself.
        #expect(lease.end(own: three, isDeposed: true, now: 900) == nil)
    }

    @Test func answersToAnEarlierBootAreIgnored() {
        var earlier = NodeLease(terms, node: one, boot: 1)
        var promises = LeasePromises(terms, now: 0)
        let beat = earlier.beat(applied: 0, now: 10)
        let three = voters([1, 2, 3])
        let reply = promises.answer(beat, naming: three, by: two, now: 10)
        var later = NodeLease(terms, node: one, boot: 2)
        _ = later.beat(applied: 0, now: 10)
        later.take(reply)
        #expect(later.end(own: three, isDeposed: false, now: 11) == nil)
    }

    @Test func newerConfigurationOfAVoterApplies() {
        var lease = NodeLease(terms, node: one, boot: 1)
        var promises = LeasePromises(terms, now: 0)
        let old = voters([1, 2, 3])
        let new = voters([2, 3, 4, 5, 6], index: 9)
        _ = exchange(&lease, &promises, naming: new, at: 100, answered: 100)
        #expect(lease.end(own: old, isDeposed: false, now: 200) == nil)
        // The named configuration expires with the answer, and so does the promise.
        #expect(lease.end(own: old, isDeposed: false, now: 1_100) == nil)
    }

    /// A leader proposed fewer voters and was cut off: the other voters never received that entry
    /// and decide without the leader.
    @Test func uncommittedConfigurationOfTwoVotersGivesNoUnlimitedLease() {
        var lease = NodeLease(terms, node: one, boot: 1)
        var promises = LeasePromises(terms, now: 0)
        let (agreed, newest) = (voters([1, 2, 3]), voters([1, 2], index: 9))
        #expect(lease.end(own: newest, agreed: agreed, isDeposed: false, now: 5) == nil)
        _ = exchange(&lease, &promises, naming: agreed, at: 100, answered: 100)
        #expect(lease.end(own: newest, agreed: agreed, isDeposed: false, now: 200) == 1_100)
        // Once committed, the configuration applies.
        #expect(lease.end(own: newest, isDeposed: false, now: 2_000) == .max)
    }

    /// A leader proposes fewer voters and refuses a promise.
    ///
    /// Its configuration may never be committed, so the lease still needs the configuration of the
    /// own log.
    @Test func narrowerConfigurationOfAVoterIsNotEnough() {
        var lease = NodeLease(terms, node: one, boot: 1)
        var promises = LeasePromises(terms, now: 0)
        promises.appended(.deposes([one]), at: 3)
        let (own, named) = (voters([1, 2, 3]), voters([1, 2], index: 9))
        let decision = exchange(&lease, &promises, naming: named, at: 100, answered: 100)
        #expect(decision == .refused(3))
        #expect(lease.end(own: own, isDeposed: false, now: 200) == nil)
    }

    @Test func jointConfigurationNeedsBothHalves() {
        var lease = NodeLease(terms, node: one, boot: 1)
        var promises = LeasePromises(terms, now: 0)
        var joint = voters([1, 2, 3], index: 4)
        joint.outgoing = [4, 5, 6].map { NodeNumber($0) }
        _ = exchange(&lease, &promises, naming: joint, at: 100, answered: 100)
        #expect(lease.end(own: joint, isDeposed: false, now: 200) == nil)
        joint.outgoing = [1, 2, 4].map { NodeNumber($0) }
        #expect(lease.end(own: joint, isDeposed: false, now: 200) == 1_100)
    }

    @Test func deposingEntryWaitsForThePromise() {
        var lease = NodeLease(terms, node: one, boot: 1)
        var promises = LeasePromises(terms, now: 0)
        let three = voters([1, 2, 3])
        _ = exchange(&lease, &promises, naming: three, at: 5_000, answered: 5_000)
        promises.appended(.deposes([one]), at: 7)
        promises.appended(.deposes([NodeNumber(3)]), at: 8)
        #expect(promises.hold(now: 5_500) == .init(index: 7, untilNanoseconds: 6_021))
        // No further promise until the deposed node has applied the entry.
        let decision = exchange(&lease, &promises, naming: three, at: 5_600, answered: 5_600)
        #expect(decision == .refused(7))
        #expect(promises.hold(now: 6_021) == nil)
        promises.committed(through: 8)
        let still = exchange(&lease, &promises, naming: three, at: 6_100, answered: 6_100)
        #expect(still == .refused(7))
        let applied = exchange(
            &lease,
            &promises,
            applied: 7,
            naming: three,
            at: 6_200,
            answered: 6_200
        )
        #expect(applied == .granted)
    }

    /// After all nodes lost power, the deposed node may be the only one that knows that the entry
    /// is committed.
    ///
    /// Its lease requests prove that it has applied the entry, so they must not delay the entry.
    @Test func deposedNodeThatAppliedTheEntryDoesNotDelayIt() {
        var lease = NodeLease(terms, node: one, boot: 1)
        var promises = LeasePromises(terms, now: 0)
        let three = voters([1, 2, 3])
        #expect(exchange(&lease, &promises, naming: three, at: 1_500, answered: 1_500) == .granted)
        promises.appended(.deposes([one]), at: 7)
        #expect(promises.hold(now: 2_000) == .init(index: 7, untilNanoseconds: 2_521))
        var now: UInt64 = 2_000
        while now < 2_521 {
            let decision = exchange(
                &lease,
                &promises,
                applied: 7,
                naming: three,
                at: now,
                answered: now
            )
            #expect(decision == .granted)
            now += 100
        }
        #expect(promises.hold(now: 2_521) == nil)
    }

    @Test func configurationWaitsForEarlierPromisesOnly() {
        var lease = NodeLease(terms, node: one, boot: 1)
        var promises = LeasePromises(terms, now: 0)
        let three = voters([1, 2, 3])
        _ = exchange(&lease, &promises, naming: three, at: 5_000, answered: 5_000)
        promises.appended(.changesVoters, at: 7)
        _ = exchange(&lease, &promises, naming: three, at: 5_900, answered: 5_900)
        #expect(promises.hold(now: 6_020) == .init(index: 7, untilNanoseconds: 6_021))
        #expect(promises.hold(now: 6_021) == nil)
    }

    /// While the snapshot is written to disk, the leader sends later entries.
    @Test func snapshotKeepsEntriesBehindItWaiting() {
        var lease = NodeLease(terms, node: one, boot: 1)
        var promises = LeasePromises(terms, now: 0)
        let three = voters([1, 2, 3])
        _ = exchange(&lease, &promises, naming: three, at: 5_000, answered: 5_000)
        promises.appended(.deposes([one]), at: 12)
        promises.restored(deposedAt: [NodeNumber(2): 7], through: 10)
        #expect(promises.hold(now: 5_100)?.index == 12)
        promises.committed(through: 12)
        let decision = exchange(&lease, &promises, naming: three, at: 6_500, answered: 6_500)
        #expect(decision == .refused(12))
        // The snapshot's deposing entries apply as well.
        var other = NodeLease(terms, node: NodeNumber(2), boot: 1)
        let late = exchange(&other, &promises, naming: three, at: 6_600, answered: 6_600)
        #expect(late == .refused(7))
    }

    @Test func restartedVoterHoldsEntriesForAPromisesDuration() {
        var promises = LeasePromises(terms, now: 300)
        promises.appended(.deposes([one]), at: 7)
        #expect(promises.hold(now: 1_320) == .init(index: 7, untilNanoseconds: 1_321))
        #expect(promises.hold(now: 1_321) == nil)
    }

    @Test func overwrittenEntryDoesNotHoldBackAcknowledgements() {
        var promises = LeasePromises(terms, now: 0)
        promises.appended(.deposes([one]), at: 7)
        promises.appended(.none, at: 7)
        #expect(promises.hold(now: 1) == nil)
    }
}
