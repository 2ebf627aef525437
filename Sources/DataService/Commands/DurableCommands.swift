internal import Bytes
internal import Engine
internal import Replication
internal import Seams
internal import Vocabulary
internal import Wire

/// Writes that are answered only once enough copies have them.
extension Connection {
    /// The turn of a write, with the level that it has to reach; answers and returns nil where
    /// that is impossible.
    @inline(__always)
    func writingTurn(_ exchange: Exchange, _ bucket: OpenBucket) -> Turn? {
        guard exchange.framing.durability != nil || bucket.minimumDurability != nil else {
            return turn
        }
        return durableTurn(exchange, bucket)
    }

    @inline(never)
    private func durableTurn(_ exchange: Exchange, _ bucket: OpenBucket) -> Turn? {
        let asked = exchange.framing.durability?.level
        let level = [asked, bucket.minimumDurability].compactMap { $0 }
            .max { $0.rawValue < $1.rawValue }
        let number = VBucketID(vBucketNumber(exchange.frame, bucket.engine))
        let obstacle = level.flatMap { bucket.obstacle(to: $0, of: number) }
        // By an old map more may seem impossible than is: who serves it says so.
        if obstacle != nil, !isServed(number, bucket) {
            answerNotMyVBucket(exchange)
            return nil
        }
        switch obstacle {
        case nil: break
        case .level:
            answer(
                .durabilityInvalidLevel,
                to: exchange.replyTo,
                because: "The bucket has no disk to persist to."
            )
            return nil
        case .copies:
            answer(
                .durabilityImpossible,
                to: exchange.replyTo,
                because: "Too few nodes have a copy for a durable write."
            )
            return nil
        }
        var turn = turn
        turn.durability = level
        return turn
    }

    private func isServed(_ vBucket: VBucketID, _ bucket: OpenBucket) -> Bool {
        bucket.engine[vBucket.number]?.withCore { $0.state == .active } ?? false
    }

    /// Does a write; one that is prepared only is entered before anybody else can write.
    @inline(__always)
    func write(
        _ exchange: Exchange,
        _ vBucket: VBucket,
        _ bucket: OpenBucket,
        _ turn: Turn,
        _ body: (inout VBucketCore) -> MutationOutcome
    ) -> MutationOutcome {
        guard let level = turn.durability else { return vBucket.withCore { body(&$0) } }
        let timeout = exchange.framing.durability?.timeoutMilliseconds.map(UInt64.init)
        return bucket.prepare(vBucket, level, timeout, service.environment.time, body)
    }

    /// Has a prepared write wait for the others.
    func waitForCopies(
        _ exchange: Exchange,
        _ prepared: Stored,
        _ bucket: OpenBucket
    ) -> Execution {
        let number = VBucketID(vBucketNumber(exchange.frame, bucket.engine))
        return wait(exchange) { done in
            bucket.desk.wait(for: prepared.seqno, of: number) { done(.durable($0)) }
        }
    }

    /// What became of a write that waited for the others.
    func answerDurable(_ exchange: Exchange, _ end: DurableEnd) {
        switch end {
        case .committed(let cas, let seqno, let uuid, let number):
            guard !exchange.command.isQuiet else { return }
            answerStored(exchange, cas: cas, uuid: uuid, seqno: seqno, number: number)
        case .ambiguous: answer(.syncWriteAmbiguous, to: exchange.replyTo)
        }
    }

    /// Somebody's write of the document was prepared and is not completed: try again.
    ///
    /// Clients that know nothing of such writes are told to try again in words that they know.
    func answerOutstanding(_ exchange: Exchange, isInherited: Bool) {
        let knows = features.contains(.syncReplication) || exchange.framing.durability != nil
        let status: Status = isInherited ? .syncWriteRecommitInProgress : .syncWriteInProgress
        answer(knows ? status : .temporaryFailure, to: exchange.replyTo)
    }
}

extension OpenBucket {
    /// Why a durable write cannot be.
    enum DurabilityObstacle {
        /// There is no such level here.
        case level
        /// There are too few copies, or so many that nobody can count on them.
        case copies
    }

    /// Why a durable write of a vBucket cannot be, as far as its map tells; another node's is
    /// refused by who knows that.
    func obstacle(to level: DurabilityLevel, of vBucket: VBucketID) -> DurabilityObstacle? {
        if level.needsDisk, !engine.isPersistent { return .level }
        guard let entry = assignment?[checked: vBucket] else {
            return settings.replicas > DurabilityDesk.replicasMax ? .copies : nil
        }
        let copies = max(entry.copies, entry.nextChain.isEmpty ? 0 : entry.nextCopies)
        if copies - 1 > DurabilityDesk.replicasMax { return .copies }
        return entry.chain.count < entry.majority ? .copies : nil
    }

    /// Does a write that is to be durable, and enters it with the desk under the same hold of the
    /// lock: the desk completes writes in the order of their seqnos.
    func prepare(
        _ vBucket: VBucket,
        _ level: DurabilityLevel,
        _ timeoutMilliseconds: UInt64?,
        _ time: any TimeSource,
        _ body: (inout VBucketCore) -> MutationOutcome
    ) -> MutationOutcome {
        let timeout = timeoutMilliseconds ?? DurabilityDesk.timeoutMilliseconds
        let deadline = time.monotonicNanoseconds() &+ timeout * 1_000_000
        return vBucket.withCore { core in
            let outcome = body(&core)
            if case .prepared(let stored) = outcome {
                desk.enter(stored, level, deadline: deadline, of: core.id)
            }
            return outcome
        }
    }
}

extension BucketAssignment {
    fileprivate subscript(checked vBucket: VBucketID) -> VBucketAssignment? {
        vBucket.number < vBuckets.count ? self[vBucket] : nil
    }
}
