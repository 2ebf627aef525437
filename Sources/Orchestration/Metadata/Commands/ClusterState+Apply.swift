internal import Vocabulary

/// The replicated state machine: same commands, same order, same state.
extension ClusterState {
    /// Applies an agreed proposal.
    ///
    /// - Parameters:
    ///   - envelope: The proposal.
    ///   - index: Its log index. Indexes of entries without a command may be skipped.
    /// - Returns: What it changed. A refused command advances `index` as well.
    package mutating func apply(_ envelope: ClusterEnvelope, at index: UInt64) -> ClusterOutcome {
        precondition(index > self.index, "commands are applied in order")
        self.index = index
        let (node, boot, number) = (envelope.proposer, envelope.boot, envelope.number)
        // Removing a node removes its rows, so a late repetition could not be recognised: refuse
        // it.
        let isGone = number != 0 && !nodes.isEmpty && place(ofNode: node) == nil
        guard !isGone else { return .refused(.nodeUnknown) }
        let isFirst = proposals.record(node, boot: boot, number: number)
        guard isFirst else {
            let wasApplied = proposals.wasApplied(node, boot: boot, number: number)
            return wasApplied ? .repeated : .refused(.refusedBefore)
        }
        let outcome =
            mayApply(envelope) ? dispatch(envelope.command) : .refused(.notPermitted)
        if case .refused = outcome { proposals.recordRefusal(node, boot: boot, number: number) }
        return outcome
    }

    /// Applies a command without tracking repetitions, whatever its login.
    package mutating func apply(_ command: ClusterCommand, at index: UInt64) -> ClusterOutcome {
        precondition(index > self.index, "commands are applied in order")
        self.index = index
        return dispatch(command)
    }

    private mutating func dispatch(_ command: ClusterCommand) -> ClusterOutcome {
        if let refusal = jointRefusal(of: command) { return .refused(refusal) }
        return apply(command)
    }

    private mutating func apply(_ command: ClusterCommand) -> ClusterOutcome {
        switch command {
        case .initialise, .setAdministrator, .setName, .setMemoryQuota, .setSettings,
            .setIndexing, .resetAutoFailoverCount, .newEpoch, .raiseFeatureLevel,
            .renewSecret, .changeAuthorities:
            applyToCluster(command)
        case .putUser(let change): put(change)
        case .deleteUser(let id): delete(user: id)
        case .changePassword(let change): self.change(change)
        case .addNode(let node): add(node)
        case .setNode(let address): set(address)
        case .setAlternate(let change): set(change)
        case .setNodeState(let change): set(change)
        case .removeNode(let number): remove(number)
        case .setGroups(let layout): set(layout)
        case .createBucket(let bucket): create(bucket)
        case .changeBucket(let change): self.change(bucket: change)
        case .deleteBucket(let step): delete(bucket: step)
        case .flushBucket(let step): flush(bucket: step)
        case .putDesignDocument(let change): put(change)
        case .deleteDesignDocument(let removal): delete(removal)
        case .startRebalance(let record): start(record)
        case .setTargets(let change): set(change)
        case .markRebalance(let step): raiseProgress(step)
        case .endRebalance(let outcome): end(outcome)
        case .dropRetry(let id): dropRetry(id)
        case .joint(let steps): join(steps)
        case .final(let steps): finish(steps)
        case .takeOver(let steps): takeOver(steps)
        case .promote(let steps): promote(steps)
        case .confirm(let steps): confirm(steps)
        case .resume(let steps): resume(steps)
        case .release(let steps): release(steps)
        case .recreate(let steps): recreate(steps)
        case .failOver(let step): failOver(step)
        }
    }

    private mutating func applyToCluster(_ command: ClusterCommand) -> ClusterOutcome {
        switch command {
        case .initialise(let birth):
            guard !isProvisioned else { return .refused(.alreadyInitialised) }
            uuid = birth.uuid
            groupID = birth.groupID
            administrator = birth.administrator
            if let quota = birth.memoryQuota { memoryQuota = quota }
            if let name = birth.name { self.name = name }
            nodesMoved()
            return .applied([.administratorChanged, .settingsChanged, .nodesChanged])
        case .setAdministrator(let administrator):
            guard isProvisioned else { return .refused(.notInitialised) }
            guard user(administrator.name) == nil else { return .refused(.userExists) }
            self.administrator = administrator
            return .applied([.administratorChanged])
        case .setName(let name):
            self.name = name
            nodesMoved()
            return .applied([.nodesChanged])
        case .setMemoryQuota(let quota): memoryQuota = quota
        case .setSettings(let settings, let was):
            guard was == nil || was == self.settings else { return .refused(.changedMeanwhile) }
            self.settings = settings
        case .setIndexing(let change): return set(change)
        case .resetAutoFailoverCount: autoFailoverCount = 0
        case .newEpoch(let epoch): return begin(epoch)
        case .raiseFeatureLevel(let level): return raise(to: level)
        case .renewSecret(let next):
            guard next.revision == secret.revision + 1, next.isFor(members) else {
                return .refused(.changedMeanwhile)
            }
            secret = next
            for place in secret.authorities.indices where secret.authorities[place].id == 0 {
                lastAuthority += 1
                secret.authorities[place].id = lastAuthority
            }
        case .changeAuthorities(let change): return self.change(change)
        default: preconditionFailure("a command of another part")
        }
        return .applied([.settingsChanged])
    }
}

/// The authorities that operators load, for the certificates of nodes and of clients.
extension ClusterState {
    /// Bytes of all certificates of authorities that operators may load: they are in each snapshot.
    package static let authorityBytesMax = 1 << 20

    mutating func change(_ change: AuthorityChange) -> ClusterOutcome {
        var (authorities, last) = (loadedAuthorities, lastAuthority)
        if change.removed != 0 {
            guard let index = authorities.firstIndex(where: { $0.id == change.removed }) else {
                return .refused(.authorityUnknown)
            }
            authorities.remove(at: index)
        }
        for added in change.added {
            // The same certificate again: only its file may be another one.
            if let index = authorities.firstIndex(where: { $0.certificate == added.certificate }) {
                authorities[index].host = added.host
                authorities[index].file = added.file
                continue
            }
            last += 1
            var record = added
            record.id = last
            authorities.append(record)
        }
        let bytes = authorities.reduce(0) { $0 + $1.certificate.count }
        guard bytes <= Self.authorityBytesMax else { return .refused(.authoritiesTooLarge) }
        (loadedAuthorities, lastAuthority) = (authorities, last)
        return .applied([.settingsChanged])
    }
}

/// Which features the cluster may use.
extension ClusterState {
    /// Raises the agreed feature level.
    ///
    /// The leader proposes what all members announced as far as it knew. If a member announced less
    /// in an earlier entry, or a node that understands less was added by one, the level stays.
    mutating func raise(to level: FeatureLevel) -> ClusterOutcome {
        guard level > featureLevel else { return .refused(.changedMeanwhile) }
        guard level <= announcedLevel else { return .refused(.levelTooHigh) }
        featureLevel = level
        return .applied([.nodesChanged])
    }
}
