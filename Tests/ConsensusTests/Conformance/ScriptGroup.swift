import Consensus
import Vocabulary

/// The members of a script and the network between them.
///
/// Divan's members always use pre-vote, and ignore vote requests while they hear a leader. Most
/// scripts do neither, so this group imitates them: without pre-vote, every member grants each
/// pre-vote unasked; without check-quorum, vote requests are marked as those of a leadership
/// transfer, which are never ignored. This does not change what the scripts test: terms, logs,
/// votes, commits, configurations.
struct ScriptGroup {
    enum Packet {
        case message(Message)
        /// A member's report to itself that its writes are on disk, which in scripts is a message.
        case stored(NodeNumber, UInt64)

        var to: NodeNumber {
            switch self {
            case .message(let message): message.to
            case .stored(let node, _): node
            }
        }

        var isAppend: Bool {
            guard case .message(let message) = self, case .append = message.body else {
                return false
            }
            return true
        }
    }

    struct Modes {
        var isPreVoting = false
        var isCheckingQuorum = false
        var isAsynchronous = false
    }

    var nodes: [NodeNumber: ScriptNode] = [:]
    var network: [Packet] = []
    var modes = Modes()

    var numbers: [NodeNumber] { nodes.keys.sorted() }

    /// A member that the script has not created is a mistake of the script's reader.
    subscript(number: NodeNumber) -> ScriptNode {
        guard let node = nodes[number] else { preconditionFailure("no member \(number)") }
        return node
    }

    @discardableResult
    mutating func step(_ number: NodeNumber, _ event: RaftEvent) -> ProposalAnswer? {
        guard let ready = nodes[number]?.raft.step(event) else { return nil }
        nodes[number]?.collect(ready)
        if !modes.isPreVoting { grantPreVotes(to: number) }
        return ready.proposal
    }

    private mutating func grantPreVotes(to number: NodeNumber) {
        let raft = self[number].raft
        guard raft.role == .preCandidate else { return }
        for voter in raft.configuration.electorate where voter != number {
            guard self[number].raft.role == .preCandidate else { return }
            let yes = Message.VoteResponse(isGranted: true, isPreVote: true)
            let message = Message(
                from: voter,
                to: number,
                term: raft.term + 1,
                body: .voteResponse(yes)
            )
            if let ready = nodes[number]?.raft.step(.received(message)) {
                nodes[number]?.collect(ready)
            }
        }
    }

    private mutating func send(_ messages: [Message]) {
        for var message in messages {
            switch message.body {
            case .voteRequest(var request):
                if request.isPreVote, !modes.isPreVoting { continue }
                if !modes.isCheckingQuorum { request.isTransfer = true }
                message.body = .voteRequest(request)
            case .snapshot:
                // The driver sends its newest snapshot.
                let newest = self[message.from].applied
                message.body = .snapshot(newest)
                nodes[message.from]?.snapshotsSent[message.to] = newest.index
            default: break
            }
            network.append(.message(message))
        }
    }

    // MARK: The driver of a script

    mutating func processReady(_ number: NodeNumber) {
        nodes[number]?.publish()
        let node = self[number]
        nodes[number]?.outbox = []
        nodes[number]?.pending = []
        send(node.outbox)
        // Divan's candidate requests votes when its term and vote are on disk, a script's before:
        // store a candidate's writes at once.
        if modes.isAsynchronous, node.raft.role == .candidate {
            while !self[number].appending.isEmpty { processAppend(number) }
            store(node.pending, at: number)
        } else if modes.isAsynchronous {
            if !node.pending.isEmpty { nodes[number]?.appending.append(node.pending) }
            let shown = nodes[number]?.takeShown() ?? []
            if !shown.isEmpty { nodes[number]?.applying.append(shown) }
        } else {
            store(node.pending, at: number)
            if let shown = nodes[number]?.takeShown() { nodes[number]?.apply(shown) }
        }
        proposeAgain(number)
    }

    private mutating func store(_ writes: [StorageWrite], at number: NodeNumber) {
        guard let last = writes.last else { return }
        nodes[number]?.store(writes)
        storeDone(number, last.number)
    }

    /// Reports a write as stored.
    ///
    /// Messages that waited for the disk leave now; messages that the report causes leave with the
    /// next `process-ready`.
    private mutating func storeDone(_ number: NodeNumber, _ write: UInt64) {
        let held = self[number].outbox
        nodes[number]?.outbox = []
        step(number, .stored(write))
        let now = self[number].outbox
        nodes[number]?.outbox = held + now.filter { !$0.waitsForStorage }
        send(now.filter(\.waitsForStorage))
    }

    private mutating func proposeAgain(_ number: NodeNumber) {
        guard let change = nodes[number]?.changes.first else { return }
        if case .accepted = step(number, .change(change)) { nodes[number]?.changes.removeFirst() }
    }

    mutating func processAppend(_ number: NodeNumber) {
        guard self[number].appending.isEmpty == false,
            let writes = nodes[number]?.appending.removeFirst(), let last = writes.last
        else { return }
        nodes[number]?.store(writes)
        if self[number].raft.role == .follower {
            storeDone(number, last.number)
        } else {
            network.append(.stored(number, last.number))
        }
    }

    mutating func processApply(_ number: NodeNumber) {
        guard self[number].applying.isEmpty == false,
            let entries = nodes[number]?.applying.removeFirst()
        else { return }
        nodes[number]?.apply(entries)
    }

    mutating func deliver(to number: NodeNumber, onlyAppends: Bool = false) {
        let isMeant = { (packet: Packet) in
            packet.to == number && (!onlyAppends || packet.isAppend)
        }
        let arriving = network.filter(isMeant)
        network.removeAll(where: isMeant)
        for packet in arriving {
            switch packet {
            case .message(let message): step(number, .received(message))
            case .stored(_, let write): storeDone(number, write)
            }
        }
    }

    mutating func drop(to number: NodeNumber) {
        network.removeAll { $0.to == number }
    }

    /// Runs the chosen members until nothing is left to do.
    ///
    /// Returns false if that does not end.
    mutating func stabilize(_ chosen: [NodeNumber]) -> Bool {
        for _ in 0..<1_000 {
            var isDone = true
            for number in chosen where self[number].isReady {
                isDone = false
                processReady(number)
            }
            for number in chosen where network.contains(where: { $0.to == number }) {
                isDone = false
                deliver(to: number)
            }
            for number in chosen where !self[number].appending.isEmpty {
                isDone = false
                processAppend(number)
            }
            for number in chosen where !self[number].applying.isEmpty {
                isDone = false
                processApply(number)
            }
            if isDone { return true }
        }
        return false
    }
}

extension Message {
    /// Whether a message of this kind waits for a write.
    fileprivate var waitsForStorage: Bool {
        switch body {
        case .voteRequest, .voteResponse, .appendResponse: true
        default: false
        }
    }
}
