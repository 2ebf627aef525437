import Consensus
import Testing
import Vocabulary

/// The public tables: decisions of majorities, and results of changes.
///
/// Every case of every file runs; `README.md` beside this folder describes what is not compared.
@Suite(.enabled(if: !Fixtures.isMissing, "../shared/conformance/etcd-raft is missing"))
struct TableTests {
    @Test(arguments: ["majority_commit", "majority_vote", "joint_commit", "joint_vote"])
    func quorumDecisionAgreesWithTheTable(_ table: String) throws {
        let directives = try Fixtures.directives(of: "quorum/testdata/\(table).txt")
        let counts = [
            "majority_commit": 16, "majority_vote": 22, "joint_commit": 50, "joint_vote": 39,
        ]
        #expect(directives.count == counts[table], "the table changed, or was not read completely")
        for directive in directives {
            let halves = [directive.options["cfg"], directive.options["cfgj"]].map {
                $0 == ["zero"] ? [] : Notation.nodes($0)
            }
            let voters = halves[0] + halves[1].filter { !halves[0].contains($0) }
            let words = directive.options["idx"] ?? directive.options["votes"] ?? []
            try #require(words.count == voters.count, "line \(directive.line)")
            let said = Dictionary(uniqueKeysWithValues: zip(voters, words))
            let configuration = try configuration(halves[0], halves[1])
            // Exchanging the halves must not change the decision.
            let mirrored = try self.configuration(halves[1], halves[0])
            for configuration in [configuration, mirrored] {
                let decision = try decision(directive.command, configuration, said)
                #expect(directive.answer.last == decision, "line \(directive.line)")
            }
        }
    }

    /// Builds a configuration by a change, the only way to a joint one.
    private func configuration(
        _ new: [NodeNumber],
        _ old: [NodeNumber]
    ) throws -> VoterConfiguration {
        guard !old.isEmpty else { return VoterConfiguration(voters: new) }
        guard !new.isEmpty else { return VoterConfiguration(voters: old) }
        let steps =
            new.map { ConfigurationChange.Step.addVoter($0) }
            + old.filter { !new.contains($0) }.map { .remove($0) }
        let change = ConfigurationChange(steps, transition: .jointUntilLeft)
        let joint = try VoterConfiguration(voters: old).applying(change)
        try #require(joint.voters == new.sorted() && joint.outgoing == old.sorted())
        return joint
    }

    private func decision(
        _ command: String,
        _ configuration: VoterConfiguration,
        _ said: [NodeNumber: String]
    ) throws -> String {
        guard command == "committed" else {
            try #require(command == "vote")
            let votes = ["y": true, "n": false]
            switch configuration.outcome({ said[$0].flatMap { votes[$0] } }) {
            case .won: return "VoteWon"
            case .lost: return "VoteLost"
            case .pending: return "VotePending"
            }
        }
        let index = configuration.committed { said[$0].flatMap { UInt64($0) } ?? 0 }
        return index == .max ? "<empty majority quorum>∞" : "\(index)"
    }

    @Test func resultsOfChangesAgreeWithTheTables() throws {
        let names = try Fixtures.names(in: "confchange/testdata")
        #expect(names.count == 9)
        var cases = 0
        for name in names {
            // A table begins with an empty configuration.
            var configuration = VoterConfiguration(voters: [])
            for directive in try Fixtures.directives(of: "confchange/testdata/\(name)") {
                let place = "\(name):\(directive.line)"
                cases += 1
                do throws(Refusal) {
                    let next = try changed(configuration, directive)
                    // The lines about progress begin with the number of the member.
                    let members = directive.answer.dropFirst().map { line in
                        Line(line)
                    }
                    #expect(directive.answer.first == Notation.text(next), "\(place)")
                    #expect(members == next.members.map { Line($0, next) }, "\(place)")
                    configuration = next
                } catch {
                    #expect(isRefusal(error, directive), "\(place): \(error)")
                }
            }
        }
        #expect(cases == 58)
    }

    private struct Line: Equatable {
        var node: UInt16?
        var isLearner: Bool

        init(_ line: String) {
            node = line.split(separator: ":").first.flatMap { UInt16($0) }
            isLearner = line.hasSuffix("learner")
        }

        init(_ node: NodeNumber, _ configuration: VoterConfiguration) {
            self.node = node.value
            isLearner = configuration.learners.contains(node)
        }
    }

    private enum Refusal: Error {
        case ours(ConfigurationRefusal)
        /// The tables refuse a change that `.automatic` would make by a joint configuration.
        case needsJoint
    }

    private func changed(
        _ before: VoterConfiguration,
        _ directive: Directive
    ) throws(Refusal) -> VoterConfiguration {
        var steps = Notation.steps(directive.input) ?? []
        if steps.isEmpty { steps = [Notation.nothing] }
        var change = ConfigurationChange(steps)
        switch directive.command {
        case "leave-joint": change = .leave
        case "enter-joint":
            change.transition =
                directive.isOn("autoleave") ? .jointLeftByItself : .jointUntilLeft
        default: precondition(directive.command == "simple", "the table has an unknown command")
        }
        let next: VoterConfiguration
        do {
            next = try before.applying(change)
        } catch {
            throw .ours(error)
        }
        if directive.command == "simple", next.isJoint { throw .needsJoint }
        return next
    }

    /// The tables have more error texts than Divan has refusals: theirs also name the command.
    private func isRefusal(_ refusal: Refusal, _ directive: Directive) -> Bool {
        let isEntering = directive.command == "enter-joint"
        let sign =
            switch refusal {
            case .ours(.alreadyJoint): isEntering ? "already joint" : "in joint config"
            case .ours(.notJoint): "a non-joint config"
            case .ours(.noVoterLeft): isEntering ? "zero-voter" : "removed all voters"
            case .needsJoint: "without entering joint"
            }
        return directive.answer.count == 1 && directive.answer[0].contains(sign)
    }
}
