import Consensus
import Testing
import Vocabulary

/// Voter configurations: majorities by table, and the results of changes.
@Suite struct ConfigurationTests {
    private func nodes(_ numbers: [UInt16]) -> [NodeNumber] { numbers.map { NodeNumber($0) } }

    private func joint(_ new: [UInt16], _ old: [UInt16]) throws -> VoterConfiguration {
        let before = VoterConfiguration(voters: nodes(old))
        let added = new.filter { !old.contains($0) }.map { NodeNumber($0) }
        let removed = old.filter { !new.contains($0) }.map { NodeNumber($0) }
        let steps =
            added.map { ConfigurationChange.Step.addVoter($0) }
            + removed.map { .remove($0) }
        return try before.applying(ConfigurationChange(steps, transition: .jointUntilLeft))
    }

    @Test func committedIndexIsTheOneThatAMajorityHasReached() {
        let table: [(reached: [UInt64], index: UInt64)] = [
            ([5], 5), ([5, 9], 5), ([1, 2, 3], 2), ([1, 1, 3], 1), ([4, 4, 9, 9], 4),
            ([1, 2, 3, 4, 5], 3),
        ]
        for (reached, index) in table {
            let numbers = (0..<reached.count).map { NodeNumber(UInt16($0)) }
            let configuration = VoterConfiguration(voters: numbers)
            #expect(configuration.committed { reached[Int($0.value)] } == index)
        }
    }

    @Test func jointConfigurationNeedsAMajorityOfBothHalves() throws {
        let configuration = try joint([3, 4, 5], [1, 2, 3])
        let reached: [UInt16: UInt64] = [1: 10, 2: 10, 3: 1, 4: 5, 5: 7]
        #expect(configuration.committed { reached[$0.value] ?? 0 } == 5)
        #expect(configuration.outcome { [1, 2].contains($0.value) ? true : nil } == .pending)
        #expect(configuration.outcome { [1, 2, 4, 5].contains($0.value) ? true : nil } == .won)
        #expect(configuration.outcome { [4, 5].contains($0.value) ? false : nil } == .lost)
    }

    /// Compares with counting, for all combinations of up to five voters and three indexes.
    @Test func committedIndexAgreesWithCounting() {
        for size in 1...5 {
            let numbers = (0..<size).map { NodeNumber(UInt16($0)) }
            let configuration = VoterConfiguration(voters: numbers)
            for code in 0..<Int(pow3(size)) {
                let reached = (0..<size).map { UInt64(code / Int(pow3($0)) % 3) }
                let counted = (UInt64(0)...2).last { index in
                    reached.filter { $0 >= index }.count * 2 > size
                }
                #expect(configuration.committed { reached[Int($0.value)] } == counted)
            }
        }
    }

    private func pow3(_ exponent: Int) -> UInt64 {
        (0..<exponent).reduce(1) { value, _ in value * 3 }
    }

    @Test func addingOrRemovingOneVoterNeedsNoJointConfiguration() throws {
        let before = VoterConfiguration(voters: nodes([1, 2]), learners: nodes([3]))
        let after = try before.applying(ConfigurationChange([.addVoter(NodeNumber(3))]))
        #expect(after == VoterConfiguration(voters: nodes([1, 2, 3])))
        let fewer = try after.applying(ConfigurationChange([.remove(NodeNumber(1))]))
        #expect(fewer == VoterConfiguration(voters: nodes([2, 3])))
    }

    @Test func voterDemotedInAJointChangeBecomesALearnerWhenItEnds() throws {
        let before = VoterConfiguration(voters: nodes([1, 2, 3]))
        let change = ConfigurationChange([.addLearner(NodeNumber(3)), .addVoter(NodeNumber(4))])
        let between = try before.applying(change)
        #expect(between.isJoint && between.leavesByItself)
        #expect(between.voters == nodes([1, 2, 4]) && between.outgoing == nodes([1, 2, 3]))
        #expect(between.learners.isEmpty && between.learnersNext == nodes([3]))
        let after = try between.applying(.leave)
        #expect(after == VoterConfiguration(voters: nodes([1, 2, 4]), learners: nodes([3])))
    }

    @Test func impossibleChangeIsRefusedWithItsReason() throws {
        let alone = VoterConfiguration(voters: nodes([1]))
        let remove = ConfigurationChange([.remove(NodeNumber(1))])
        #expect(throws: ConfigurationRefusal.noVoterLeft) { try alone.applying(remove) }
        #expect(throws: ConfigurationRefusal.notJoint) { try alone.applying(.leave) }
        // A half without voters decides nothing: the configuration would not really be joint.
        let empty = VoterConfiguration(voters: [])
        for transition in [ConfigurationChange.Transition.jointLeftByItself, .jointUntilLeft] {
            let add = ConfigurationChange([.addVoter(NodeNumber(1))], transition: transition)
            #expect(throws: ConfigurationRefusal.noVoterLeft) { try empty.applying(add) }
        }
        let joint = try joint([3, 4], [1, 2])
        #expect(throws: ConfigurationRefusal.alreadyJoint) { try joint.applying(remove) }
    }
}
