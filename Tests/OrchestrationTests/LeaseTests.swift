import Orchestration
import Testing
import Vocabulary

/// Leases by voters: what is promised, what is held back, and what counts.
@Suite struct LeaseTests {
    private let terms = LeaseTerms(leaseNanoseconds: 1_000, ratePerMille: 10)
    private let one = NodeNumber(1)
    private let two = NodeNumber(2)

    private func voters(_ numbers: [UInt16], index: UInt64 = 1) -> LeaseVoters {
        LeaseVoters(term: 1, index: index, voters: numbers.map { NodeNumber($0) })
    }

    /// A beat from node 1 to voter 2, and the answer.
    private func exchange(
        _ lease: inout NodeLease,
        _ promises: inout LeasePromises,
        applied: UInt64 = 0,
        naming: LeaseVoters,
        at now: UInt64,
        answered: UInt64
    ) -> LeaseReply.Verdict {
        let beat = lease.beat(applied: applied, now: now)
        let reply = promises.answer(beat, naming: naming, by: two, now: answered)
        lease.take(reply)
        return reply.verdict
    }

    @Test func aPromiseOutlastsALeaseByTheClocksRates() {
        #expect(terms.promiseNanoseconds == 1_021)
        #expect(LeaseTerms().leaseNanoseconds == 500_000_000)
    }

    @Test(arguments: [(1, true), (2, true), (3, false), (4, false), (5, false)])
    func oneOrTwoVotersNeedNobody(_ count: UInt16, _ isAlone: Bool) {
        let lease = NodeLease(terms, node: one, boot: 1)
        let own = voters(Array(1...count))
        #expect((lease.end(own: own, isDeposed: false, now: 5) == .max) == isAlone)
        #expect(lease.end(own: own, isDeposed: true, now: 5) == nil)
    }

    @Test func aLeaseCountsFromWhenTheBeatWasSent() {
        var lease = NodeLease(terms, node: one, boot: 1)
        var promises = LeasePromises(terms, now: 0)
        let three = voters([1, 2, 3])
        #expect(exchange(&lease, &promises, naming: three, at: 100, answered: 900) == .granted)
        #expect(lease.end(own: three, isDeposed: false, now: 900) == 1_100)
        #expect(lease.end(own: three, isDeposed: false, now: 1_100) == nil)
        // A deposed node does not count itself.
        #expect(lease.end(own: three, isDeposed: true, now: 900) == nil)
    }

    @Test func answersToAnEarlierLifeAreNone() {
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

    @Test func aNewerConfigurationThatAVoterNamesCounts() {
        var lease = NodeLease(terms, node: one, boot: 1)
        var promises = LeasePromises(terms, now: 0)
        let old = voters([1, 2, 3])
        let new = voters([2, 3, 4, 5, 6], index: 9)
        _ = exchange(&lease, &promises, naming: new, at: 100, answered: 100)
        #expect(lease.end(own: old, isDeposed: false, now: 200) == nil)
        // With the answer its news expire; and so does its grant.
        #expect(lease.end(own: old, isDeposed: false, now: 1_100) == nil)
    }

    /// It asked for fewer voters and was cut off: the others never had that, and decide without it.
    @Test func aConfigurationThatNobodyElseHasLetsNobodyServeAlone() {
        var lease = NodeLease(terms, node: one, boot: 1)
        var promises = LeasePromises(terms, now: 0)
        let (agreed, newest) = (voters([1, 2, 3]), voters([1, 2], index: 9))
        #expect(lease.end(own: newest, agreed: agreed, isDeposed: false, now: 5) == nil)
        _ = exchange(&lease, &promises, naming: agreed, at: 100, answered: 100)
        #expect(lease.end(own: newest, agreed: agreed, isDeposed: false, now: 200) == 1_100)
        // Agreed on, it is what counts.
        #expect(lease.end(own: newest, isDeposed: false, now: 2_000) == .max)
    }

    /// A leader asks for fewer voters, and refuses to promise anything: what it names may never be,
    /// and is no reason to serve by less than what the own log has.
    @Test func aNarrowerConfigurationThatSomebodyNamesIsNotEnough() {
        var lease = NodeLease(terms, node: one, boot: 1)
        var promises = LeasePromises(terms, now: 0)
        promises.appended(.deposes([one]), at: 3)
        let (own, named) = (voters([1, 2, 3]), voters([1, 2], index: 9))
        let verdict = exchange(&lease, &promises, naming: named, at: 100, answered: 100)
        #expect(verdict == .refused(3))
        #expect(lease.end(own: own, isDeposed: false, now: 200) == nil)
    }

    @Test func aJointConfigurationNeedsBothHalves() {
        var lease = NodeLease(terms, node: one, boot: 1)
        var promises = LeasePromises(terms, now: 0)
        var joint = voters([1, 2, 3], index: 4)
        joint.outgoing = [4, 5, 6].map { NodeNumber($0) }
        _ = exchange(&lease, &promises, naming: joint, at: 100, answered: 100)
        #expect(lease.end(own: joint, isDeposed: false, now: 200) == nil)
        joint.outgoing = [1, 2, 4].map { NodeNumber($0) }
        #expect(lease.end(own: joint, isDeposed: false, now: 200) == 1_100)
    }

    @Test func whatDeposesAHolderWaitsForItsPromise() {
        var lease = NodeLease(terms, node: one, boot: 1)
        var promises = LeasePromises(terms, now: 0)
        let three = voters([1, 2, 3])
        _ = exchange(&lease, &promises, naming: three, at: 5_000, answered: 5_000)
        promises.appended(.deposes([one]), at: 7)
        promises.appended(.deposes([NodeNumber(3)]), at: 8)
        #expect(promises.hold(now: 5_500) == .init(index: 7, untilNanoseconds: 6_021))
        // No further promise, until the entry is applied over there.
        let verdict = exchange(&lease, &promises, naming: three, at: 5_600, answered: 5_600)
        #expect(verdict == .refused(7))
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

    /// After all nodes lost power, the one deposed may be the only one that knows the entry to be
    /// committed: its leases, which prove that it does, must not hold the entry back.
    @Test func whoHasAppliedWhatDeposedItHoldsItBackNoLonger() {
        var lease = NodeLease(terms, node: one, boot: 1)
        var promises = LeasePromises(terms, now: 0)
        let three = voters([1, 2, 3])
        #expect(exchange(&lease, &promises, naming: three, at: 1_500, answered: 1_500) == .granted)
        promises.appended(.deposes([one]), at: 7)
        #expect(promises.hold(now: 2_000) == .init(index: 7, untilNanoseconds: 2_521))
        var now: UInt64 = 2_000
        while now < 2_521 {
            let verdict = exchange(
                &lease,
                &promises,
                applied: 7,
                naming: three,
                at: now,
                answered: now
            )
            #expect(verdict == .granted)
            now += 100
        }
        #expect(promises.hold(now: 2_521) == nil)
    }

    @Test func aConfigurationWaitsForThePromisesBeforeItOnly() {
        var lease = NodeLease(terms, node: one, boot: 1)
        var promises = LeasePromises(terms, now: 0)
        let three = voters([1, 2, 3])
        _ = exchange(&lease, &promises, naming: three, at: 5_000, answered: 5_000)
        promises.appended(.changesVoters, at: 7)
        _ = exchange(&lease, &promises, naming: three, at: 5_900, answered: 5_900)
        #expect(promises.hold(now: 6_020) == .init(index: 7, untilNanoseconds: 6_021))
        #expect(promises.hold(now: 6_021) == nil)
    }

    /// It is on its way to disk for a while, and the leader sends what stands behind it meanwhile.
    @Test func aSnapshotTakesNothingFromWhatCameBehindIt() {
        var lease = NodeLease(terms, node: one, boot: 1)
        var promises = LeasePromises(terms, now: 0)
        let three = voters([1, 2, 3])
        _ = exchange(&lease, &promises, naming: three, at: 5_000, answered: 5_000)
        promises.appended(.deposes([one]), at: 12)
        promises.restored(deposedAt: [NodeNumber(2): 7], through: 10)
        #expect(promises.hold(now: 5_100)?.index == 12)
        promises.committed(through: 12)
        let verdict = exchange(&lease, &promises, naming: three, at: 6_500, answered: 6_500)
        #expect(verdict == .refused(12))
        // What the snapshot says counts as well.
        var other = NodeLease(terms, node: NodeNumber(2), boot: 1)
        let late = exchange(&other, &promises, naming: three, at: 6_600, answered: 6_600)
        #expect(late == .refused(7))
    }

    @Test func afterAStartEverythingWaitsAsLongAsAPromise() {
        var promises = LeasePromises(terms, now: 300)
        promises.appended(.deposes([one]), at: 7)
        #expect(promises.hold(now: 1_320) == .init(index: 7, untilNanoseconds: 1_321))
        #expect(promises.hold(now: 1_321) == nil)
    }

    @Test func anEntryThatIsOverwrittenHoldsNothing() {
        var promises = LeasePromises(terms, now: 0)
        promises.appended(.deposes([one]), at: 7)
        promises.appended(.none, at: 7)
        #expect(promises.hold(now: 1) == nil)
    }
}
