internal import Bytes
internal import Orchestration
internal import Seams
internal import Vocabulary

extension Cluster.Settings {
    /// Why serving clients without TLS endangers passwords and documents; nil if only this machine can connect, or
    /// there is TLS.
    package var unsecuredWarning: String? {
        guard let host = unsecuredHost, !SocketAddress(host: host, port: 0).isLoopback else {
            return nil
        }
        return
            "This node serves clients on \(host) without TLS: others can read passwords and documents on "
            + "the network. Start it without --no-tls, or with --bind 127.0.0.1."
    }
}

/// Alerts for an operator, and whether this node is ready for clients.
package final class HealthService: Sendable {
    let cluster: Cluster
    let statistics: StatisticsService
    let certificates: CertificateService

    init(_ statistics: StatisticsService, _ certificates: CertificateService) {
        cluster = statistics.cluster
        (self.statistics, self.certificates) = (statistics, certificates)
    }

    /// An alert is raised when less than a twentieth of the disk is free.
    private static let diskShareMin: UInt64 = 20
    /// A busy disk completes a write sooner: an alert is raised after this time.
    private static let diskTimeoutSeconds: UInt64 = 3

    /// The current alerts for an operator: those of the data plane, buckets that do not serve all
    /// their vBuckets or have fewer copies than configured, a disk that is nearly full.
    package var alerts: [Alert] {
        var alerts = cluster.dataPlane.alerts()
        if let failure = cluster.member.driver.status.failure {
            alerts.append(Alert(id: "control", message: failure))
        }
        alerts += diskAlerts
        alerts +=
            cluster.descriptors.shortage.map { [Alert(id: "descriptors", message: $0)] } ?? []
        alerts += certificates.certificateAlerts
        if let warning = cluster.settings.unsecuredWarning {
            alerts.append(Alert(id: "tls", message: warning))
        }
        if let listener = cluster.settings.memcached,
            let refusal = MemcachedListener.refusal(
                ofBucket: listener.bucket,
                nodes: cluster.state.members.count
            )
        {
            alerts.append(Alert(id: "memcached", message: refusal))
        }
        if let flaw = memoryFlaw { alerts.append(Alert(id: "memory", message: flaw)) }
        let (unopened, unfollowed) = cluster.core.withLock { ($0.openings.failed, $0.unfollowed) }
        if let unfollowed { alerts.append(Alert(id: "following", message: unfollowed)) }
        for (name, reason) in unopened.sorted(by: { $0.key < $1.key }) {
            let message = "Bucket \(name) could not be opened and is retried: \(reason)"
            alerts.append(Alert(id: "bucket/\(name)", message: message))
        }
        alerts += nodeAlerts
        for bucket in cluster.state.buckets {
            let (name, count) = (bucket.settings.name, cluster.state.unserved(bucket))
            guard count > 0 else { continue }
            let message =
                "\(count) of \(bucket.placements.count) vBuckets of bucket \(name) "
                + (count == 1 ? "is " : "are ")
                + BucketImbalance.unserved
            alerts.append(Alert(id: "unserved/\(name)", message: message))
        }
        alerts += cluster.state.lostRedundancy.map {
            Alert(id: "redundancy/\($0.bucket)", message: $0.sentence)
        }
        for bucket in cluster.state.buckets {
            let name = bucket.settings.name
            guard case .failed(let reason) = cluster.dataPlane.status(ofBucket: name),
                !alerts.contains(where: { $0.message.contains(reason) }), unopened[name] == nil
            else { continue }
            let message = "Bucket \(name) does not serve: \(reason)"
            alerts.append(Alert(id: "bucket/\(name)", message: message))
        }
        if let (free, total) = cluster.diskSpace, free < total / Self.diskShareMin {
            let message =
                "The disk that holds \(cluster.settings.directory) is nearly full: \(free >> 20) MB of "
                + "\(total >> 20) MB are free. Free disk space, or documents will not be persisted."
            alerts.append(Alert(id: "disk", message: message))
        }
        return alerts
    }

    /// Why the machine's memory is too small for the quota; nil if it is not.
    ///
    /// The quota was set on a larger machine. The node serves anyway, since a node that refused to
    /// start would serve nothing.
    var memoryFlaw: String? {
        let quota = cluster.state.memoryQuota >> 20
        guard
            case .tooLarge(let most, let total) = MemoryQuota.flaw(
                megabytes: quota,
                memoryTotal: cluster.settings.memoryTotal
            )
        else { return nil }
        return "The memory quota of \(quota) MB is more than this machine can give: at most "
            + "\(most) MB of its \(total) MB. Full buckets can exhaust its memory. Lower the "
            + "buckets' quotas and memoryQuota (POST /pools/default), or give the machine more "
            + "memory."
    }

    /// A write that does not end explains why this node takes part in no decision.
    private var diskAlerts: [Alert] {
        guard let since = cluster.member.driver.status.diskBusySince else { return [] }
        let now = cluster.monotonicNanoseconds
        let seconds = (now - min(now, since)) / 1_000_000_000
        guard seconds >= Self.diskTimeoutSeconds else { return [] }
        let message =
            "The disk that holds \(cluster.settings.directory) has not finished a write for \(seconds) "
            + "seconds. Until it does, this node takes part in no decision. Check the disk."
        return [Alert(id: "disk/slow", message: message)]
    }

    /// Alerts about nodes that are down and not failed over, and about a missing majority.
    private var nodeAlerts: [Alert] {
        let state = cluster.state
        let (reasons, leaderlessTicks) = statistics.receivedStatistics.core.withLock {
            ($0.failoverReasons, $0.ticksWithoutLeader)
        }
        var alerts: [Alert] = []
        if leaderlessTicks > 1 {
            let message =
                "This node cannot reach a majority of the voting nodes: what it shows may be out "
                + "of date, and nothing can be changed here. Check that the other nodes run and "
                + "can be reached."
            alerts.append(Alert(id: "majority", message: message))
        }
        let down = state.activeNodes.filter {
            cluster.isSilent($0.number) && $0.number != cluster.thisNode
        }
        for node in down {
            var message = "Node \(node.host):\(node.ports.admin) does not answer."
            if !reasons.isEmpty {
                message += " It is not failed over automatically: " + reasons.joined(separator: " ")
            }
            alerts.append(Alert(id: "node/\(node.number.value)", message: message))
        }
        return alerts
    }
}
