internal import Bytes
internal import Engine
internal import Seams
internal import Synchronization
package import Vocabulary
internal import Wire

extension BucketStatistics {
    fileprivate mutating func count(_ core: borrowing VBucketCore) {
        guard core.ownership.exists else { return }
        copies.add(Int(core.id.number), items: UInt64(core.liveCount), core.state)
        guard core.state == .active else {
            self[.replicaNonResidentItems] += UInt64(core.ejectedCount)
            return
        }
        self[.tombstones] += UInt64(core.tombstoneCount)
        self[.residentItems] += UInt64(max(core.liveCount - core.ejectedCount, 0))
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
    /// The statistics that are sums over all vBuckets; acquires each vBucket's lock, so it is meant
    /// for rare calls.
    package var totals: BucketStatistics {
        var totals = BucketStatistics()
        let assignment = assignment
        for vBucket in engine.all {
            vBucket.withCore { core in
                totals.count(core)
                if core.isOrphaned(assignment) { totals[.sealedVBuckets] += 1 }
                totals[.diskQueue] += core.highSeqno.value - core.durableSeqno.value
                totals[.checkpointBytes] += UInt64(core.checkpoint.ownedBytes)
            }
        }
        return totals
    }

    /// The totals with the bucket's other statistics.
    ///
    /// - Parameter readsDisk: Whether to read the numbers of the files and of the flushers too; false
    ///   on a data lane.
    /// - Returns: The statistics of this node; 0 for those of views.
    package func statistics(readsDisk: Bool) -> BucketStatistics {
        var found = totals
        for counter in Statistic.counted { found[counter] = counters.total(counter) }
        found[.ops] = counters.operations
        let account = engine.account
        found[.memoryUsed] = account.bytes
        found[.quota] = account.quota
        found[.lowWatermark] = account.lowWatermark
        found[.highWatermark] = account.highWatermark
        found[.connections] = connections
        let durable = syncWrites.statistics
        found[.durableAccepted] = durable.accepted
        found[.durableCommitted] = durable.committed
        found[.durableAborted] = durable.aborted
        found[.durableAmbiguous] = durable.ambiguous
        guard readsDisk, let disk else { return found }
        (found[.diskUsed], found[.diskDataUsed]) = disk.bytes
        found[.oldestUnpersisted] = (disk.flushers.map(\.oldestChangeAge).max() ?? 0) / 1_000_000
        return found
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

    /// 0 to 1 during warmup; nil afterwards and without a disk.
    package var warmupProgress: Double? { disk?.warmup.progress }

    /// The error of an unreadable part of the bucket; nil if there is none.
    package var failure: String? { disk?.warmup.failure }
}

extension DocumentService {
    /// STAT without a group: memcached's names, and the bucket's own.
    func generalStats(of bucket: OpenBucket) -> [(String, String)] {
        let statistics = bucket.statistics(readsDisk: false)
        let now = environment.time.monotonicNanoseconds()
        let isPersistent = bucket.engine.isPersistent
        return [
            ("uptime", String((now - startedNanoseconds) / 1_000_000_000)),
            ("time", String(environment.time.wallNanoseconds() / 1_000_000_000)),
            ("version", version),
            ("curr_connections", String(connections)),
            ("threads", String(contexts.count)),
        ] + statistics.lines(Statistic.general.numbers) + [
            ("ep_warmup_thread", bucket.warmupProgress == nil ? "complete" : "running"),
            ("ep_bucket_type", isPersistent ? "persistent" : "ephemeral"),
        ] + statistics.lines(Statistic.general.memory)
    }

    /// STAT memory: the bytes that the bucket occupies, and those that the clients of all buckets
    /// use beyond `Limits.connectionBytes` each.
    func memoryStats(of bucket: OpenBucket) -> [(String, String)] {
        let statistics = bucket.statistics(readsDisk: false)
        let clients = environment.network.memory.usage
        let strangers = strangers.usage
        return statistics.lines(Statistic.memory) + [
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

/// Statistics of the clients' connections that stream changes.
extension DocumentService {
    /// The group `dcp`: lines for each connection, then totals.
    func changeStats(of bucket: OpenBucket) -> [(String, String)] {
        let clients = bucket.traffic.clients.all
        var lines: [(String, String)] = []
        for client in clients {
            let prefix = "eq_dcpq:\(client.name)"
            lines += [
                ("\(prefix):type", "producer"),
                ("\(prefix):connected", "true"),
                ("\(prefix):num_streams", String(client.streams.load(ordering: .relaxed))),
                ("\(prefix):items_sent", String(client.items.load(ordering: .relaxed))),
                ("\(prefix):total_bytes_sent", String(client.bytes.load(ordering: .relaxed))),
                (
                    "\(prefix):unacked_bytes",
                    String(client.unacknowledged.load(ordering: .relaxed))
                ),
            ]
        }
        lines += [
            ("ep_dcp_count", String(clients.count)),
            ("ep_dcp_producer_count", String(clients.count)),
        ]
        return lines
    }

    /// The group `dcpagg`: totals by the part of a connection's name before `separator`.
    func changeTotals(of bucket: OpenBucket, separator: Substring) -> [(String, String)] {
        struct Total {
            var count = 0
            var items: UInt64 = 0
            var bytes: UInt64 = 0
        }
        var totals: [String: Total] = [":total": Total()]
        for client in bucket.traffic.clients.all {
            let end = client.name.firstRange(of: separator)?.lowerBound ?? client.name.endIndex
            let group = end == client.name.endIndex ? nil : String(client.name[..<end])
            for key in [group, ":total"].compactMap({ $0 }) {
                totals[key, default: Total()].count += 1
                totals[key, default: Total()].items += client.items.load(ordering: .relaxed)
                totals[key, default: Total()].bytes += client.bytes.load(ordering: .relaxed)
            }
        }
        return totals.sorted { $0.key < $1.key }.flatMap { name, total in
            [
                ("\(name):count", String(total.count)),
                ("\(name):producer_count", String(total.count)),
                ("\(name):items_sent", String(total.items)),
                ("\(name):total_bytes", String(total.bytes)),
            ]
        }
    }
}
