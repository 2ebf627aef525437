internal import Bytes
internal import Engine
internal import Vocabulary

extension BucketDisk {
    /// Reads the missing data of an attempt from disk.
    ///
    /// - Parameters:
    ///   - wait: What is missing: a value, metadata or the vBucket's documents.
    ///   - vBucket: The vBucket of the document.
    ///   - key: The requested key.
    ///   - hash: The key's hash.
    ///   - done: Called once, from any lane: `ready` to attempt again, or `failed`.
    func provide(
        _ wait: Wait,
        of vBucket: VBucketID,
        key: ByteView,
        hash: UInt64,
        _ done: @escaping @Sendable (Completion) -> Void
    ) {
        func fetch(_ seqno: Seqno, isWhole: Bool) {
            let request = FetchRequest(
                vBucket: vBucket,
                seqno: seqno,
                key: key.bytes,
                hash: hash,
                isWhole: isWhole
            )
            fetcher.fetch(request, done)
        }
        switch wait {
        case .value(let seqno): fetch(seqno, isWhole: false)
        case .metadata(let seqno): fetch(seqno, isWhole: true)
        case .warmup: warmup.whenLoaded(vBucket, done)
        case .handOver, .room: preconditionFailure("no disk ends a hand-over, or frees memory")
        }
    }
}

extension OpenBucket {
    /// Provides what an attempt needs, then calls `done` once, from any lane: `ready` to attempt
    /// again, `roomMade` to attempt again without another wait for room, or `failed`.
    func resume(
        after wait: Wait,
        of vBucket: VBucketID,
        key: ByteView,
        hash: UInt64,
        _ done: @escaping @Sendable (Completion) -> Void
    ) {
        switch wait {
        case .handOver: return handOvers.whenHandedOver(vBucket, engine, done: done)
        case .room(let bytes): return pager.makeRoom(for: bytes, done)
        case .value, .metadata, .warmup: break
        }
        guard let disk else {
            preconditionFailure("only a bucket with a disk has something to wait for")
        }
        disk.provide(wait, of: vBucket, key: key, hash: hash, done)
    }

    /// The reason why a durable write of this level cannot be made, according to the map here; nil
    /// if it can.
    ///
    /// A copy that is not active refuses with `notMyVBucket`: its map may be old, and the active
    /// node knows better.
    func refusal(of level: DurabilityLevel, _ document: DocumentAddress) -> DocumentRefusal? {
        guard let obstacle = obstacle(to: level, of: document.id) else { return nil }
        guard document.vBucket.withCore({ $0.state == .active }) else { return .notMyVBucket }
        return obstacle
    }

    private func obstacle(to level: DurabilityLevel, of vBucket: VBucketID) -> DocumentRefusal? {
        if level.needsDisk, !engine.isPersistent { return .durabilityLevelInvalid }
        guard let map = assignment, vBucket.number < map.vBuckets.count else {
            return settings.replicas > SyncWriteService.replicasMax ? .durabilityImpossible : nil
        }
        let entry = map[vBucket]
        let copies = max(entry.copies, entry.nextChain.isEmpty ? 0 : entry.nextCopies)
        if copies - 1 > SyncWriteService.replicasMax { return .durabilityImpossible }
        return entry.chain.count < entry.majority ? .durabilityImpossible : nil
    }
}
