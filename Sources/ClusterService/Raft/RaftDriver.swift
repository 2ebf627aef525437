internal import Bytes
package import Consensus
internal import Orchestration
package import Persistence
package import Seams
package import Vocabulary

/// Drives this node's member of the Raft group: time, disk, messages, the state, waiting callers.
///
/// Everything happens on the control lane, one event after the other. Only the disk works in
/// parallel, on a lane of its own, in order; changes that gather meanwhile share one transaction.
///
/// - A proposal is answered only after it is applied here, and an entry is applied only after it is
///   on disk.
/// - A disk error is like a crash: what was not stored is dropped, the node sends nothing, and it
///   restarts from its disk once a write succeeds.
/// - Acknowledgements are withheld as the promises to lease holders demand, before any can be sent.
/// - Callbacks run at the end of a turn, so they may call the driver again.
package final class RaftDriver<State: ReplicatedState>:
    @unchecked Sendable  // tidy:allow touched on one lane only
{
    enum Life {
        case running
        /// The disk does not store what must be stored: a sentence for the operator.
        case failing(String)
        case stopped
    }

    /// An event for the machine, and the callback for the answer if it is a proposal.
    struct Step {
        var event: RaftEvent
        var answered: ((ProposalAnswer) -> Void)?
    }

    package let settings: RaftDriverSettings
    package let store: ControlStore
    package let state: State
    let environment: Environment
    let lane: any Lane
    let diskLane: any Lane
    let transport: any RaftTransport
    /// Called at the end of a turn that changed role, leader, members or health.
    package var onChange: (@Sendable (RaftStatus) -> Void)?

    var raft: Raft
    var life = Life.running
    /// The last logged failure: a repeated one is logged once.
    var lastFailure: String?
    var applied: LogIndex
    private var steps: [Step] = []
    private var isRunning = false
    var callbacks: [() -> Void] = []
    var disk = DiskQueue()
    var snapshots = SnapshotProgress()
    var proposals: ProposalLine<State.Outcome>
    var reads = ReadLine()
    var changes: [PendingChange] = []
    var promises: LeasePromises
    var hold: LeasePromises.Hold?
    var timers = DriverTimers()
    var heard: [NodeNumber: UInt64] = [:]
    /// The last entry in the log when this node started, committed or not.
    let restoredIndex: UInt64
    /// The newest commit index that was on disk when this node started.
    let restoredCommit: UInt64
    /// The newest commit index that is on disk, or being written.
    var commitKept: UInt64
    private let published = Guarded(RaftStatus())

    /// Restores what the store has; `RaftBeginning` writes the first history of a store.
    ///
    /// - Throws: `ClusterError` if the store or the state in it cannot be read.
    package init(
        _ settings: RaftDriverSettings,
        store: ControlStore,
        state: State,
        transport: any RaftTransport,
        environment: Environment,
        lane: any Lane,
        diskLane: any Lane
    ) throws(ClusterError) {
        self.settings = settings
        self.store = store
        self.state = state
        self.transport = transport
        self.environment = environment
        self.lane = lane
        self.diskLane = diskLane
        let restored = try Self.read(store)
        try state.restore(restored.state, at: restored.raft.snapshot.index)
        applied = restored.raft.snapshot.index
        restoredIndex = restored.raft.entries.last?.position.index ?? applied
        commitKept = restored.raft.hardState.commit
        restoredCommit = commitKept
        raft = Raft(settings.raft, restoring: restored.raft)
        proposals = ProposalLine(firstCall: environment.entropy.next() >> 1)
        reads = ReadLine(firstContext: environment.entropy.next() >> 1)
        promises = LeasePromises(
            settings.leases,
            now: environment.time.monotonicNanoseconds(),
            deposedAt: state.deposedAt
        )
        publish()
    }

    static func read(
        _ store: ControlStore
    ) throws(ClusterError) -> (raft: RestoredState, state: [UInt8]) {
        do throws(StorageError) {
            guard let contents = try store.load(), let snapshot = try store.snapshot() else {
                preconditionFailure("a driver needs a history, and \(store.path) has none")
            }
            guard let restored = RaftStorage.restored(contents) else {
                throw StorageError(
                    .damaged,
                    "\(store.path) has an entry of a kind that this release does not know"
                )
            }
            return (restored, snapshot.state)
        } catch {
            throw ClusterError(error)
        }
    }

    /// Starts the driver; call it once, before any other thread can call the driver.
    ///
    /// A lone voter needs no other node: when this returns, it leads and has applied its whole log.
    ///
    /// - Throws: `ClusterError` with the code `.disk` if the first write fails.
    package func start() throws(ClusterError) {
        disk.isInline = true
        recordLog()
        // Stores nothing new, but applies what is known to be committed.
        enqueue(.stored(0))
        if raft.configuration.electorate == [settings.node] { enqueue(.campaign) }
        run()
        disk.isInline = false
        if case .failing(let text) = life {
            timers.cancel()
            throw ClusterError(code: .disk, description: text)
        }
        lane.post { self.run() }
    }

    /// Fails all waiting callers, and closes the store after the last write.
    ///
    /// The newest commit index is stored too: if one of two nodes is started alone afterwards, it
    /// serves because its whole log is known to be committed.
    package func stop() {
        if case .stopped = life { return }
        keepLastCommit()
        life = .stopped
        steps = []
        timers.cancel()
        failAllCallers(.stopping)
        endTransfers()
        dropDisk(.stopping)
        let (store, trace) = (store, environment.trace)
        diskLane.post {
            do throws(StorageError) {
                try store.close()
            } catch {
                trace.warning("cluster", error.description)
            }
        }
        publish()
        runCallbacks()
    }

    /// The status at the end of the last turn; from any thread.
    package var status: RaftStatus { published.withLock { $0 } }

    /// The current log; on the control lane, or if there is only one thread.
    package var log: RaftLog { raft.log }

    var now: UInt64 { environment.time.monotonicNanoseconds() }

    // MARK: Turns

    func enqueue(_ event: RaftEvent, answered: ((ProposalAnswer) -> Void)? = nil) {
        steps.append(Step(event: event, answered: answered))
    }

    /// Steps the machine until nothing is left to do; on the control lane.
    func run() {
        guard !isRunning else { return }
        isRunning = true
        repeat {
            while !steps.isEmpty {
                let next = steps.removeFirst()
                guard case .running = life else { continue }
                let ready = raft.step(next.event)
                if let answer = ready.proposal { next.answered?(answer) }
                process(ready)
            }
            if case .running = life { finishTurn() }
            pumpDisk()
        } while !steps.isEmpty
        armTick()
        armHold()
        publish()
        isRunning = false
        runCallbacks()
    }

    /// Continues what a finished turn makes possible.
    private func finishTurn() {
        releasePromises()
        takeSnapshotIfDue()
        sendProposals()
        finishReads()
        finishChanges()
    }

    private func process(_ ready: Ready) {
        if let write = ready.write { keep(write) }
        for message in ready.messages { send(message) }
        for entry in ready.toApply { apply(entry) }
        for answer in ready.reads { handleReadAnswer(answer) }
        if ready.isStateChanged { roleChanged() }
    }

    private func roleChanged() {
        proposals.sendAgain()
        reads.askAgain()
        if !raft.isLeader { stopSendingSnapshots() }
    }

    func forgetSteps() { steps = [] }

    /// Inserts a step before all others: the next step may contain an acknowledgement to withhold.
    func stepNext(_ event: RaftEvent) { steps.insert(Step(event: event), at: 0) }

    private func runCallbacks() {
        while !callbacks.isEmpty {
            let due = callbacks
            callbacks = []
            for callback in due { callback() }
        }
    }

    // MARK: Applying

    private func apply(_ entry: LogEntry) {
        // After a disk error the machine restarts at its snapshot, but the state may be ahead of
        // it.
        guard case .running = life, entry.index > applied else { return }
        precondition(entry.index == applied + 1, "entries are applied in order, none left out")
        switch entry.payload {
        case .command(let bytes):
            do {
                resolve(try state.apply(bytes, at: entry.index))
            } catch {
                return fail(error.description)
            }
        case .configuration, .empty: state.pass(entry.index)
        }
        applied = entry.index
        snapshots.applied(entry)
    }

    // MARK: Messages

    private func send(_ message: Message) {
        if case .snapshot = message.body { return beginSnapshot(message) }
        send(.message(message), to: message.to)
    }

    func send(_ frame: RaftFrame, to node: NodeNumber) {
        transport.send(frame.encoded, to: node)
    }

    /// Handles a frame from another node's driver; on the control lane.
    package func receive(_ bytes: [UInt8], from node: NodeNumber) {
        guard case .running = life else { return }
        guard let frame = try? RaftFrame(decoding: bytes, skipsRest: true) else {
            environment.trace.warning("cluster", "\(node) sent bytes that are no Raft message")
            return
        }
        heard[node] = now
        switch frame {
        case .message(let message):
            guard message.from == node, message.to == settings.node else { break }
            // First the state is stored, then this node delivers the message to itself.
            if case .snapshot = message.body { break }
            enqueue(.received(message))
        case .snapshotHead(let head): handleSnapshotHead(head, from: node)
        case .snapshotPart(let transfer, let number, let bytes):
            handleSnapshotPart(transfer, number, bytes, from: node)
        case .snapshotTaken(let transfer, let parts): handleStoredParts(transfer, parts, by: node)
        case .snapshotRefused(let transfer): snapshotRefused(transfer, by: node)
        case .forward(let call, let commands): proposeForwarded(commands, call, from: node)
        case .forwardAnswer(let call, let isAccepted):
            handleForwardAnswer(toCall: call, isAccepted: isAccepted)
        }
        run()
    }

    /// The transport reports that a frame did not reach a node.
    package func unreachable(_ node: NodeNumber) {
        enqueue(.unreachable(node))
        snapshotFailed(to: node)
        run()
    }

    // MARK: Seen from outside

    func publish() {
        var status = RaftStatus()
        status.role = raft.role
        status.leader = raft.leader
        status.term = raft.term
        status.commit = raft.commit
        status.applied = applied
        status.last = raft.log.lastIndex
        status.diskBusySince = disk.busySince
        status.configuration = raft.configuration
        status.isReadyToLead = raft.isLeader && raft.log.term(at: applied) == raft.term
        status.progress = raft.progress
        switch life {
        case .running: break
        case .failing(let text):
            status.failure = text
            (status.role, status.leader, status.isReadyToLead) = (.follower, nil, false)
        case .stopped: (status.role, status.leader, status.isReadyToLead) = (.follower, nil, false)
        }
        let before = published.withLock { published in
            defer { published = status }
            return published
        }
        if let onChange, status.differs(from: before) { callbacks.append { onChange(status) } }
    }
}

extension ClusterError {
    init(_ error: StorageError) {
        let code: Code =
            switch error.code {
            case .otherFormat: .otherFormat
            case .damaged, .foreign: .damaged
            default: .disk
            }
        self.init(code: code, description: error.description)
    }
}

/// The basis of a new epoch: this node's log, committed or not.
extension RaftDriver {
    /// This node's term, and the position of its last log entry.
    package var logEnd: (term: Term, last: LogPosition) { (raft.term, raft.log.last) }

    /// Commands in the log that are not applied: not known to be committed, or not on disk.
    package var unapplied: [(index: LogIndex, bytes: [UInt8])] {
        raft.log.entries(from: max(applied + 1, raft.log.firstIndex)).compactMap { entry in
            guard case .command(let bytes) = entry.payload else { return nil }
            return (entry.index, bytes)
        }
    }

    /// The applied position and the voters at it; nil during a change of voters.
    package var standing: (position: LogPosition, configuration: VoterConfiguration)? {
        guard !raft.configuration.isJoint, raft.log.configurationIndex <= applied,
            let term = raft.log.term(at: applied)
        else { return nil }
        return (LogPosition(term: term, index: applied), raft.configuration)
    }

    /// The number of voters, of voters that answer this node, and of voters that form a majority.
    package var quorum: (voters: Int, answering: Int, needed: Int) {
        let voters = raft.configuration.voters
        return (voters.count, voters.count { hasHeard($0) }, voters.count / 2 + 1)
    }

    /// Whether a frame of a node's driver arrived lately: a node whose disk fails sends none,
    /// though it may send beats.
    ///
    /// - Parameters:
    ///   - node: The node.
    ///   - ticks: The longest time since, in ticks; a healthy node answers the leader at every
    ///     tick.
    /// - Returns: True if it arrived; always true for this node.
    package func hasHeard(_ node: NodeNumber, ticks: UInt64 = 15) -> Bool {
        let since = now - min(now, ticks * settings.tickNanoseconds)
        return node == settings.node || (heard[node] ?? 0) > since
    }

    /// The last log index that a member is known to have on disk; 0 unless this node leads.
    package func matched(_ node: NodeNumber) -> LogIndex {
        status.progress.first { $0.node == node }?.progress.matched ?? 0
    }
}
