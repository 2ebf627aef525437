import Consensus
import Vocabulary

/// The members of a script and the network between them.
///
/// Our machine always asks for pre-votes and always holds to a leader it hears. Most scripts have
/// neither, so the world plays it: without pre-vote every pre-vote is granted by all, unasked;
/// without check-quorum a request for votes is marked as a transfer's, which nobody passes over.
/// Neither touches what the scripts are about: terms, logs, votes, commits, configurations.
struct ScriptGroup {
    enum Packet {
        case message(Message)
        /// A member's own word that its writes are on disk, where scripts see that travel.
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

    /// Members that nobody made are a mistake of the reader.
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
                // The driver sends the newest it has.
                let newest = self[message.from].applied
                message.body = .snapshot(newest)
                nodes[message.from]?.snapshotsSent[message.to] = newest.index
            default: break
            }
            network.append(.message(message))
        }
    }

    // MARK: What a script's driver does

    mutating func processReady(_ number: NodeNumber) {
        nodes[number]?.publish()
        let node = self[number]
        nodes[number]?.outbox = []
        nodes[number]?.pending = []
        send(node.outbox)
        // A candidate of ours asks when its term and vote are on disk; in a script it asks first.
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

    /// What waited for the disk leaves with it; what the news brings about, with the next.
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

    /// Until there is nothing left to do among these; says whether that moment came.
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
    /// Those that rest on the disk.
    fileprivate var waitsForStorage: Bool {
        switch body {
        case .voteRequest, .voteResponse, .appendResponse: true
        default: false
        }
    }
}
