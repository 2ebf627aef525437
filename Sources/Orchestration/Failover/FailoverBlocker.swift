package import Vocabulary

/// A reason against an automatic failover, shown to the operator.
package enum FailoverBlocker: Hashable, Sendable {
    case disabled
    case countReached(count: Int, max: Int)
    case noQuorum(have: Int, need: Int)
    case tooFewNodes(voters: Int)
    case notSeenDownByMajority(node: NodeNumber, seers: [NodeNumber], need: Int)
    case moreThanOneDown([NodeNumber])
    case wouldEmptyGroup(String)
    case noReplica(bucket: String, vBuckets: [VBucketID])
    case wouldLoseDurable(bucket: String, vBuckets: [VBucketID])
    case lastNode
    case membershipChanging
    case ephemeralWithoutReplica(bucket: String)
    case coolingDown(untilNanoseconds: UInt64)

    /// A sentence for the console.
    ///
    /// - Parameters:
    ///   - now: The time.
    ///   - name: A node's name as shown to users.
    /// - Returns: The sentence.
    package func sentence(now: UInt64, naming name: (NodeNumber) -> String) -> String {
        switch self {
        case .disabled: "Automatic failover is switched off."
        case .countReached(let count, let max):
            "\(Words.count(count, "node was", "nodes were")) failed over automatically, and the"
                + " limit is \(max) until an operator resets the count or a rebalance completes."
        case .noQuorum(let have, let need):
            "Only \(have) of the \(need) nodes that make a majority can be reached from here."
        case .tooFewNodes(let voters):
            "There \(voters == 1 ? "is" : "are") only \(Words.count(voters, "voting node")): with"
                + " fewer than \(Limits.autoFailoverVotersMin) a dead node and a cut link look the"
                + " same."
        case .notSeenDownByMajority(let node, let seers, let need):
            seers.isEmpty
                ? "No other node finds \(name(node)) down."
                : "Only \(Words.list(seers.map(name))) \(seers.count == 1 ? "finds" : "find")"
                    + " \(name(node)) down, and \(need) nodes would have to."
        case .moreThanOneDown(let nodes):
            "\(Words.list(nodes.map(name))) are down at once: that looks like a cut network rather"
                + " than like dead nodes."
        case .wouldEmptyGroup(let group):
            "No node of the server group “\(group)” would be left: that looks like a cut network."
        case .noReplica(let bucket, let vBuckets):
            "There is no other copy of \(Words.vBuckets(vBuckets)) of the bucket “\(bucket)”: a"
                + " failover would lose \(vBuckets.count == 1 ? "it" : "them")."
        case .wouldLoseDurable(let bucket, let vBuckets):
            "The remaining copies of \(Words.vBuckets(vBuckets)) of the bucket “\(bucket)” may lack"
                + " durable writes."
        case .lastNode: "It is the last active node."
        case .membershipChanging:
            "A node is just joining or leaving; the failover waits until that is done."
        case .ephemeralWithoutReplica(let bucket):
            "The bucket “\(bucket)” is in memory only and has no replicas: a failover would lose"
                + " what the node holds of it."
        case .coolingDown(let until):
            "The last attempt was a moment ago; the next one may come in"
                + " \(Words.seconds(until > now ? until - now : 0))."
        }
    }
}

/// Formats numbers and lists for sentences.
package enum Words {
    /// “1 node”, “3 nodes”; `many` is the plural if it is not `one` with an s.
    package static func count(_ number: Int, _ one: String, _ many: String? = nil) -> String {
        "\(number) \(number == 1 ? one : many ?? one + "s")"
    }

    /// “a, b and c”.
    static func list(_ parts: [String]) -> String {
        guard let last = parts.last, parts.count > 1 else { return parts.first ?? "" }
        return parts.dropLast().joined(separator: ", ") + " and " + last
    }

    /// “vBucket 7”, “vBuckets 1, 2 and 5”, “vBuckets 1, 2, 3, 4, 5 and 12 others”.
    static func vBuckets(_ vBuckets: [VBucketID]) -> String {
        let numbers = vBuckets.sorted().map { String($0.number) }
        let word = numbers.count == 1 ? "vBucket" : "vBuckets"
        let shown = 5
        guard numbers.count > shown + 1 else { return "\(word) \(list(numbers))" }
        let others = numbers.count - shown
        return "\(word) \(numbers.prefix(shown).joined(separator: ", ")) and \(others) others"
    }

    /// Whole seconds, rounded up.
    static func seconds(_ nanoseconds: UInt64) -> String {
        count(Int((nanoseconds + 999_999_999) / 1_000_000_000), "second")
    }
}
