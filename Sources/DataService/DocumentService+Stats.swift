internal import Engine
internal import Seams
package import Vocabulary
internal import Wire

/// The sums over a bucket's vBuckets.
package struct BucketTotals: Sendable {
    /// Of active copies only.
    package var items: UInt64 = 0
    package var replicaItems: UInt64 = 0
    package var tombstones: UInt64 = 0
    package var ejected: UInt64 = 0
    package var replicaEjected: UInt64 = 0
    /// The number of vBuckets by state on this node.
    package var activeVBuckets = 0
    package var replicaVBuckets = 0
    package var pendingVBuckets = 0
    /// Replicas that accept no more changes, because of a promotion that is not in the map.
    package var sealedVBuckets = 0
    /// Changes that are not persisted (0 without a disk).
    package var unpersisted: UInt64 = 0
    package var checkpointBytes: UInt64 = 0
    package var copies: [(id: VBucketID, items: UInt64, state: VBucketState)] = []
}

extension BucketTotals {
    fileprivate mutating func count(_ core: borrowing VBucketCore) {
        guard core.ownership.exists else { return }
        switch core.state {
        case .active: activeVBuckets += 1
        case .replica: replicaVBuckets += 1
        case .pending: pendingVBuckets += 1
        case .dead: break
        }
        copies.append((core.id, UInt64(core.liveCount), core.state))
        guard core.state == .active else {
            replicaItems += UInt64(core.liveCount)
            replicaEjected += UInt64(core.ejectedCount)
            return
        }
        items += UInt64(core.liveCount)
        tombstones += UInt64(core.tombstoneCount)
        ejected += UInt64(core.ejectedCount)
    }
}

extension VBucketCore {
    /// Whether the copy is sealed under a fence whose active copy is confirmed: it lags until the
    /// vBucket gets another fence, or the copy is dropped.
    fileprivate func isOrphaned(_ assignment: BucketAssignment?) -> Bool {
        ownership.exists && ownership.isSealed && state == .replica
            && assignment.map { $0[id].isConfirmed } ?? false
    }
}

extension OpenBucket {
    /// Sums over all vBuckets; acquires each vBucket's lock, so it is meant for rare calls.
    package var totals: BucketTotals {
        var totals = BucketTotals()
        for vBucket in engine.all {
            vBucket.withCore { core in
                totals.count(core)
                if core.isOrphaned(assignment) { totals.sealedVBuckets += 1 }
                totals.unpersisted += core.highSeqno.value - core.durableSeqno.value
                totals.checkpointBytes += UInt64(core.checkpoint.ownedBytes)
            }
        }
        return totals
    }

    /// By node: the changes of the copies that are active here that the other copies of the map have not
    /// acknowledged; all changes of a vBucket if its copy there has acknowledged none.
    package var replicationBacklog: [NodeNumber: UInt64] {
        guard let assignment else { return [:] }
        var backlog: [NodeNumber: UInt64] = [:]
        for vBucket in engine.all {
            let (id, high, isActive) = vBucket.withCore { core in
                (core.id, core.highSeqno.value, core.ownership.exists && core.state == .active)
            }
            guard isActive else { continue }
            let row = assignment[id]
            let progress = traffic.progress(of: id)
            let nodes = Set(row.chain + row.nextChain + row.builders)
            for node in nodes where node != row.chain.first {
                let covered = progress[node]?.covered.value ?? 0
                backlog[node, default: 0] += high - min(high, covered)
            }
        }
        return backlog
    }

    /// Nanoseconds since the oldest unpersisted change arrived; 0 if there is none.
    package var oldestUnpersistedAge: UInt64 {
        disk?.flushers.map(\.oldestChangeAge).max() ?? 0
    }

    /// 0 to 1 during warmup; nil afterwards and without a disk.
    package var warmupProgress: Double? { disk?.warmup.progress }

    /// The error of an unreadable part of the bucket; nil if there is none.
    package var failure: String? { disk?.warmup.failure }
}

extension DocumentService {
    /// STAT without a group: memcached's names, and the bucket's own.
    func generalStats(of bucket: OpenBucket) -> [(String, String)] {
        let counters = bucket.counters
        let totals = bucket.totals
        let now = environment.time.monotonicNanoseconds()
        let account = bucket.engine.account
        let durable = bucket.syncWrites.statistics
        return [
            ("uptime", String((now - startedNanoseconds) / 1_000_000_000)),
            ("time", String(environment.time.wallNanoseconds() / 1_000_000_000)),
            ("version", version),
            ("curr_connections", String(connections)),
            ("threads", String(contexts.count)),
            ("cmd_get", String(counters.total(.gets))),
            ("cmd_set", String(counters.total(.sets))),
            ("get_hits", String(counters.total(.getHits))),
            ("get_misses", String(counters.total(.getMisses))),
            ("delete_hits", String(counters.total(.deletes))),
            ("curr_items", String(totals.items)),
            ("curr_items_tot", String(totals.items + totals.replicaItems)),
            ("vb_active_curr_items", String(totals.items)),
            ("vb_replica_curr_items", String(totals.replicaItems)),
            ("vb_active_num", String(totals.activeVBuckets)),
            ("vb_replica_num", String(totals.replicaVBuckets)),
            ("vb_pending_num", String(totals.pendingVBuckets)),
            ("vb_replica_num_non_resident", String(totals.replicaEjected)),
            ("vb_active_num_non_resident", String(totals.ejected)),
            ("vb_active_sync_write_accepted_count", String(durable.accepted)),
            ("vb_active_sync_write_committed_count", String(durable.committed)),
            ("vb_active_sync_write_aborted_count", String(durable.aborted)),
            ("vb_active_sync_write_ambiguous_count", String(durable.ambiguous)),
            ("ep_queue_size", String(totals.unpersisted)),
            ("ep_bg_fetched", String(counters.total(.backgroundFetches))),
            ("ep_tmp_oom_errors", String(counters.total(.temporaryFailures))),
            ("ep_num_value_ejects", String(counters.total(.ejections))),
            ("ep_total_persisted", String(counters.total(.persistedChanges))),
            ("ep_commit_num", String(counters.total(.commits))),
            ("ep_warmup_thread", bucket.warmupProgress == nil ? "complete" : "running"),
            ("ep_bucket_type", bucket.engine.isPersistent ? "persistent" : "ephemeral"),
            ("bytes", String(account.bytes)),
            ("mem_used", String(account.bytes)),
            ("ep_max_size", String(account.quota)),
        ]
    }

    /// STAT memory: the bytes that the bucket occupies, and those that the clients of all buckets
    /// use beyond `Limits.connectionBytes` each.
    func memoryStats(of bucket: OpenBucket) -> [(String, String)] {
        let account = bucket.engine.account
        let clients = environment.network.memory.usage
        let strangers = strangers.usage
        return [
            ("mem_used", String(account.bytes)),
            ("ep_max_size", String(account.quota)),
            ("ep_mem_low_wat", String(account.lowWatermark)),
            ("ep_mem_high_wat", String(account.highWatermark)),
            ("ep_checkpoint_owned_memory", String(bucket.totals.checkpointBytes)),
            ("client_receive_bytes", String(clients.receivedBytes)),
            ("client_receive_bytes_max", String(clients.receiveBytesMax)),
            ("client_receive_waiting", String(clients.waitingCount)),
            ("client_reply_bytes", String(clients.replyBytes)),
            ("client_reply_bytes_max", String(clients.replyBytesMax)),
            ("client_parked_bytes", String(clients.parkedBytes)),
            ("client_parked_bytes_max", String(clients.parkedBytesMax)),
            ("client_without_login", String(strangers.strangerCount)),
            ("client_without_login_closed", String(strangers.endedCount)),
            ("client_guests", String(strangers.guestCount)),
            ("client_logins_refused", String(strangers.refusedCount)),
        ]
    }
}

extension OpenBucket {
    /// The bytes of the bucket's files, and the part of them that live documents use; zeros without
    /// a disk.
    package var diskBytes: (used: UInt64, data: UInt64) {
        guard let disk else { return (0, 0) }
        return disk.bytes
    }
}
