internal import Bytes
internal import Consensus
internal import Persistence
internal import Seams
internal import Vocabulary

/// Snapshots: when the next one is due, outgoing transfers, the incoming transfer.
struct SnapshotProgress {
    struct Outgoing {
        var transfer: UInt64
        var head: RaftFrame.SnapshotHead
        var parts: [[UInt8]]
        /// Parts that the receiver has on disk.
        var taken: UInt64 = 0
        var sent: UInt64 = 0
        var progressAt: UInt64
        var sentAt: UInt64
    }

    struct Incoming {
        var head: RaftFrame.SnapshotHead
        var accepted: UInt64 = 0
        var stored: UInt64 = 0
        var checksum: UInt32 = 0
    }

    /// Parts sent without an answer: what a slow disk of the receiver must absorb.
    static let window: UInt64 = 4
    /// A part is sent again if its answer is missing for this time.
    static let timeoutNanoseconds: UInt64 = 300_000_000
    /// A transfer without progress for this time is reported to Raft as failed; Raft retries later.
    static let timeoutNanosecondsMax: UInt64 = 3_000_000_000

    private(set) var entriesSince: UInt64 = 0
    private(set) var bytesSince = 0
    var isTaking = false
    /// The state is being replaced by the leader's snapshot.
    var isInstalling = false
    var loading: Set<NodeNumber> = []
    var outgoing: [NodeNumber: Outgoing] = [:]
    var incoming: Incoming?
    /// The last complete transfer, for a sender that missed the answer.
    var finished: (from: NodeNumber, transfer: UInt64, parts: UInt64)?

    mutating func applied(_ entry: LogEntry) {
        entriesSince += 1
        bytesSince += entry.bytes
    }

    mutating func beginCounting() { (entriesSince, bytesSince) = (0, 0) }
}

extension RaftDriver {
    // MARK: Own snapshots

    func takeSnapshotIfDue() {
        let isDue =
            snapshots.entriesSince >= settings.snapshotEntries
            || snapshots.bytesSince >= settings.snapshotBytes
        // A snapshot cannot contain a configuration that is not applied: take it a little later.
        guard isDue, !snapshots.isTaking, !snapshots.isInstalling,
            raft.log.configurationIndex <= applied, applied > raft.log.snapshot.index,
            // After a disk error, more may be applied than is known to be committed.
            applied <= raft.log.applied,
            let term = raft.log.term(at: applied)
        else { return }
        snapshots.isTaking = true
        snapshots.beginCounting()
        let description = SnapshotDescription(
            position: LogPosition(term: term, index: applied),
            configuration: raft.configuration
        )
        let encode = state.snapshot()
        let changes: @Sendable () -> [ControlChange] = {
            [.snapshot(ControlSnapshot(mark: RaftStorage.mark(description), state: encode()))]
        }
        disk.items.append(
            DiskQueue.Item(changes: changes) { result in
                self.snapshots.isTaking = false
                guard case .success = result else { return }
                self.snapshotTaken(description)
            }
        )
    }

    private func snapshotTaken(_ description: SnapshotDescription) {
        enqueue(.snapshotTaken(description))
        // After that step the log's new beginning is known.
        lane.post {
            guard case .running = self.life, !self.snapshots.isInstalling else { return }
            let base = RaftStorage.position(self.raft.log.base)
            self.disk.items.append(DiskQueue.Item(changes: { [.prune(base)] }) { _ in })
            self.run()
        }
    }

    // MARK: Outgoing

    /// Sends a member the newest snapshot, at the machine's request.
    func beginSnapshot(_ message: Message) {
        let node = message.to
        guard snapshots.outgoing[node] == nil, snapshots.loading.insert(node).inserted else {
            return
        }
        disk.items.append(
            DiskQueue.Item(changes: { [] }, readsSnapshot: true) { result in
                self.snapshots.loading.remove(node)
                guard case .success(let snapshot?) = result, self.raft.isLeader,
                    let description = RaftStorage.description(snapshot.mark)
                else { return }
                var message = message
                message.term = self.raft.term
                message.body = .snapshot(description)
                self.sendSnapshot(snapshot.state, message)
            }
        )
    }

    private func sendSnapshot(_ state: [UInt8], _ message: Message) {
        var parts: [[UInt8]] = []
        var rest = state[...]
        repeat {
            parts.append(Array(rest.prefix(RaftFrame.partBytes)))
            rest = rest.dropFirst(RaftFrame.partBytes)
        } while !rest.isEmpty
        let head = RaftFrame.SnapshotHead(
            transfer: environment.entropy.next() >> 1,
            parts: UInt64(parts.count),
            checksum: state.withUnsafeBytes { CRC32.checksum(ByteView($0)) },
            message: message
        )
        snapshots.outgoing[message.to] = .init(
            transfer: head.transfer,
            head: head,
            parts: parts,
            progressAt: now,
            sentAt: now
        )
        send(.snapshotHead(head), to: message.to)
    }

    func handleStoredParts(_ transfer: UInt64, _ parts: UInt64, by node: NodeNumber) {
        guard var outgoing = snapshots.outgoing[node], outgoing.transfer == transfer,
            parts >= outgoing.taken, parts <= outgoing.head.parts
        else { return }
        outgoing.taken = parts
        outgoing.sent = max(outgoing.sent, parts)
        outgoing.progressAt = now
        if parts == outgoing.head.parts {
            snapshots.outgoing[node] = nil
            return enqueue(.snapshotSent(to: node, isDelivered: true))
        }
        sendParts(&outgoing, to: node)
        snapshots.outgoing[node] = outgoing
    }

    private func sendParts(_ outgoing: inout SnapshotProgress.Outgoing, to node: NodeNumber) {
        let end = min(outgoing.taken + SnapshotProgress.window, outgoing.head.parts)
        while outgoing.sent < end {
            let bytes = outgoing.parts[Int(outgoing.sent)]
            send(
                .snapshotPart(transfer: outgoing.transfer, number: outgoing.sent, bytes: bytes),
                to: node
            )
            outgoing.sent += 1
            outgoing.sentAt = now
        }
    }

    func watchSnapshots(_ now: UInt64) {
        for (node, transfer) in snapshots.outgoing.sorted(by: { $0.key < $1.key }) {
            var outgoing = transfer
            if now >= outgoing.progressAt + SnapshotProgress.timeoutNanosecondsMax {
                snapshotFailed(to: node)
            } else if now >= max(outgoing.progressAt, outgoing.sentAt)
                + SnapshotProgress.timeoutNanoseconds
            {
                outgoing.sentAt = now
                outgoing.sent = outgoing.taken
                // A receiver without the head cannot use a part; one with the head answers its
                // progress.
                send(.snapshotHead(outgoing.head), to: node)
                snapshots.outgoing[node] = outgoing
            }
        }
    }

    func snapshotRefused(_ transfer: UInt64, by node: NodeNumber) {
        if snapshots.outgoing[node]?.transfer == transfer { snapshotFailed(to: node) }
    }

    func snapshotFailed(to node: NodeNumber) {
        guard snapshots.outgoing.removeValue(forKey: node) != nil else { return }
        enqueue(.snapshotSent(to: node, isDelivered: false))
    }

    func stopSendingSnapshots() { snapshots.outgoing = [:] }

    /// Ends all transfers; a half-received snapshot is deleted when the next one begins.
    func endTransfers() {
        stopSendingSnapshots()
        snapshots.loading = []
        snapshots.incoming = nil
        snapshots.isTaking = false
        snapshots.isInstalling = false
    }

    // MARK: Incoming

    func handleSnapshotHead(_ head: RaftFrame.SnapshotHead, from node: NodeNumber) {
        guard head.message.from == node, head.message.to == settings.node, head.parts > 0,
            case .snapshot(let description) = head.message.body
        else { return }
        if let finished = snapshots.finished, finished == (node, head.transfer, head.parts) {
            return send(.snapshotTaken(transfer: head.transfer, parts: head.parts), to: node)
        }
        if let incoming = snapshots.incoming, incoming.head == head {
            return send(.snapshotTaken(transfer: head.transfer, parts: incoming.stored), to: node)
        }
        // From an earlier term's leader, or while another snapshot is installed.
        guard head.message.term >= raft.term, !snapshots.isInstalling else {
            return send(.snapshotRefused(transfer: head.transfer), to: node)
        }
        snapshots.incoming = .init(head: head)
        let mark = RaftStorage.mark(description)
        disk.items.append(
            DiskQueue.Item(changes: { [.stage(mark)] }) { result in
                guard case .success = result else { return }
                self.send(.snapshotTaken(transfer: head.transfer, parts: 0), to: node)
            }
        )
    }

    func handleSnapshotPart(
        _ transfer: UInt64,
        _ number: UInt64,
        _ bytes: [UInt8],
        from node: NodeNumber
    ) {
        guard var incoming = snapshots.incoming, incoming.head.transfer == transfer,
            incoming.head.message.from == node, number == incoming.accepted,
            number < incoming.head.parts
        else { return }
        incoming.accepted += 1
        incoming.checksum = bytes.withUnsafeBytes {
            CRC32.checksum(ByteView($0), seed: incoming.checksum)
        }
        snapshots.incoming = incoming
        disk.items.append(
            DiskQueue.Item(changes: { [.stageChunk(number: number, bytes: bytes)] }) { result in
                guard case .success = result else { return }
                self.partStored(transfer, number + 1, from: node)
            }
        )
    }

    private func partStored(_ transfer: UInt64, _ parts: UInt64, from node: NodeNumber) {
        guard var incoming = snapshots.incoming, incoming.head.transfer == transfer else { return }
        incoming.stored = parts
        snapshots.incoming = incoming
        guard parts == incoming.head.parts else {
            return send(.snapshotTaken(transfer: transfer, parts: parts), to: node)
        }
        snapshots.incoming = nil
        guard incoming.checksum == incoming.head.checksum else {
            environment.trace.error(
                "cluster",
                "A snapshot from \(node) was damaged on the way and is requested again."
            )
            disk.items.append(DiskQueue.Item(changes: { [.dropStaged] }) { _ in })
            return send(.snapshotRefused(transfer: transfer), to: node)
        }
        snapshots.finished = (node, transfer, parts)
        send(.snapshotTaken(transfer: transfer, parts: parts), to: node)
        heard[node] = now
        enqueue(.received(incoming.head.message))
    }

    /// Installs the received state: on disk it has already replaced log and snapshot.
    func install(_ snapshot: ControlSnapshot) {
        snapshots.isInstalling = false
        let index = snapshot.mark.position.index
        do {
            try restore(snapshot.state, at: index)
        } catch {
            return fail(error.description)
        }
        recordSnapshot()
        // Only the state knows whether it contains this node's proposals: send them again.
        proposals.sendAgain()
    }

    func restore(_ bytes: [UInt8], at index: LogIndex) throws(ClusterError) {
        try state.restore(bytes, at: index)
        applied = index
        snapshots.beginCounting()
    }
}
