internal import Bytes
internal import DataService
internal import Engine
internal import Seams
internal import Server
internal import SimulatedPlatform
internal import Vocabulary

/// Lets outside consumers follow buckets, and compares them with the copies.
///
/// - Consumer: streams keep their order, without prepares and aborts; a rollback is announced if,
///   and only if, the history lacks what the client has (`ConsumerRules`); what the client has is in
///   the copy that it reads (`ConsumerComparison`); a stream of a copy that is not active any more is
///   ended within ten seconds.
/// - Consumer, at the end: what each client has equals the active copies, with all deletions; every
///   value that it received was sent by a client and not refused.
///
/// Runs in a third of the standard seeds, and in each seed of the workloads `consumer` and
/// `attributes`. The random numbers are separate sequences, so other seeds are as without it.
final class ConsumerWatch {
    static let second: UInt64 = 1_000_000_000
    private static let inspectionNanoseconds = second / 4
    private static let orphanNanoseconds = 10 * second

    let cluster: SimulatedCluster
    let verifier: Verifier
    let buckets: [BucketSettings]
    private(set) var consumers: [SimulatedConsumer] = []
    private var writers: [ExpiringWriter] = []
    private var dice: SeededRandom
    private let isOften: Bool
    /// Draws the attributes that consumers request; nil in seeds without attributes.
    private var forms: SeededRandom?
    private var compared = 0
    private var finals = 0

    /// - Returns: Nil if the seed has no consumers.
    init?(
        _ cluster: SimulatedCluster,
        _ verifier: Verifier,
        plan: SimulationPlan,
        all: [BucketSettings]
    ) {
        isOften = plan.workload == "consumer"
        guard
            isOften || plan.workload == "attributes"
                || (plan.workload == "standard" && plan.seed % 3 == 2)
        else { return nil }
        if AttributeWatch.runs(plan) { forms = SeededRandom(seed: plan.seed ^ 0x666f_726d_73) }
        self.cluster = cluster
        self.verifier = verifier
        dice = SeededRandom(seed: plan.seed ^ 0x636f_6e73_756d_6572)
        let chosen = Int(dice.next() % UInt64(all.count))
        buckets = isOften ? all : [all[chosen]]
    }

    /// Starts the consumers on the machine of the clients.
    func start(_ environment: Environment) {
        for bucket in buckets {
            let count = isOften ? 2 : 1 + Int(dice.next() % 2)
            for number in 0..<count {
                var habits = ConsumerHabits(number, vBuckets: bucket.vBuckets, &dice)
                if let number = forms?.next() {
                    habits.form = [.bodies, .systemOfDeletions, .whole][Int(number % 3)]
                }
                consumers.append(
                    SimulatedConsumer(
                        bucket,
                        habits,
                        cluster: cluster,
                        environment: environment,
                        verifier: verifier
                    )
                )
            }
            writers.append(ExpiringWriter(bucket, cluster, environment: environment))
        }
        for consumer in consumers { consumer.start() }
        for writer in writers { writer.start() }
        inspectLater()
    }

    /// The consumers only follow from now on, and no document expires.
    func end() {
        for writer in writers { writer.stop() }
        for consumer in consumers { consumer.calm() }
    }

    var tally: Tally {
        var tally = Tally()
        for consumer in consumers {
            tally.add(consumer.life.tally)
            for place in consumer.places {
                let counts = place.view.counts
                tally[.check, "consumerChanges"] += counts.changes
                tally[.check, "consumerDeletions"] += counts.deletions
                tally[.check, "consumerExpirations"] += counts.expirations
            }
        }
        tally[.check, "consumerComparisons"] = compared
        tally[.check, "finalConsumers"] = finals
        return tally
    }

    // MARK: Inspections

    private func inspectLater() {
        cluster.world.after(ConsumerWatch.inspectionNanoseconds) { [weak self] in
            guard let self, !verifier.hasFatalFlaw else { return }
            for consumer in consumers {
                checkOrphans(of: consumer)
                let count = UInt64(consumer.places.count)
                compare(consumer.places[Int(dice.next() % count)], of: consumer)
            }
            inspectLater()
        }
    }

    /// Checks that a node ends the streams of copies that are not active any more.
    private func checkOrphans(of consumer: SimulatedConsumer) {
        let now = cluster.world.now
        for place in consumer.places {
            guard isOrphan(place, of: consumer) else {
                place.orphanedAt = nil
                continue
            }
            let since = place.orphanedAt ?? now
            place.orphanedAt = since
            guard now - since > ConsumerWatch.orphanNanoseconds, let link = place.link else {
                continue
            }
            consumer.reportFlaw(
                "\(link.address) does not end the stream of \(place.id), although its copy is not "
                    + "active"
            )
            link.close()
        }
    }

    private func isOrphan(_ place: ConsumerPlace, of consumer: SimulatedConsumer) -> Bool {
        guard place.isStreaming, let link = place.link, link.isBrisk,
            link.heardAt + 3 * ConsumerWatch.second > cluster.world.now,
            let node = cluster.nodes.first(where: { $0.address == link.address.host }),
            !node.host.isFrozen, !node.isStopping,
            let copies = node.node?.data.bucket(named: consumer.bucket)?.engine.all
        else { return false }
        return copies[place.number].withCore { $0.state != .active }
    }

    /// Compares what a client has with the copy that it reads.
    private func compare(_ place: ConsumerPlace, of consumer: SimulatedConsumer) {
        guard place.isStreaming, let link = place.link,
            let node = cluster.nodes.first(where: { $0.address == link.address.host }),
            let copies = node.node?.data.bucket(named: consumer.bucket)?.engine.all
        else { return }
        let uuid = place.view.uuid
        let copy: ConsumerComparison? = copies[place.number].withCore { core in
            guard core.state == .active, core.isLoaded, core.uuid == uuid,
                core.ownership.exists, !core.ownership.isResetting
            else { return nil }
            var versions: [[UInt8]: CopyContent.Version] = [:]
            _ = core.table.visit(from: 0, groupsMax: .max / 2) { item in
                versions[item.key.bytes] = CopyContent.Version(item)
            }
            return ConsumerComparison(
                versions: versions,
                purged: core.purgeSeqno,
                isComplete: core.table.stubCount == 0
            )
        }
        guard let copy else { return }
        compared += 1
        guard let flaw = copy.flaw(in: place.view) else { return }
        consumer.reportFlaw("\(place.id) of \(link.address): \(flaw)")
        consumer.startAnew(place)
        link.close()
    }

    func countFinal() { finals += 1 }
}

/// The checks after the last write.
extension ConsumerWatch {
    /// Waits until each consumer has what the active copies have.
    ///
    /// Only while nothing else is wrong: copies that do not converge have no final content.
    func conclude() {
        checkValues()
        guard verifier.violations.isEmpty else { return }
        _ = cluster.waitUntil(seconds: 40) { isEverythingThere }
        for consumer in consumers {
            var flaws = 0
            for place in consumer.places {
                guard let flaw = finalFlaw(of: place, consumer) else {
                    countFinal()
                    continue
                }
                flaws += 1
                if flaws <= 2 { consumer.reportFlaw("at the end, \(place.id): \(flaw)") }
            }
        }
    }

    private var isEverythingThere: Bool {
        consumers.allSatisfy { consumer in
            consumer.places.allSatisfy { finalFlaw(of: $0, consumer) == nil }
        }
    }

    /// The flaw of a vBucket; nil if there is none, or if no node serves it, which the check Live reports.
    private func finalFlaw(of place: ConsumerPlace, _ consumer: SimulatedConsumer) -> String? {
        guard let node = cluster.owner(of: place.number, consumer.bucket),
            let bucket = node.node?.data.bucket(named: consumer.bucket),
            let high = bucket.highVisible(place.id)
        else { return nil }
        guard place.isStreaming, let link = place.link else {
            return "it has no stream, at \(place.view.position.value) of \(high.value)"
        }
        guard link.address.host == node.address else {
            return "its stream is of \(link.address.host), and \(node.address) serves it"
        }
        guard place.view.position == high else {
            return "it stays at \(place.view.position.value), and the last visible change is "
                + "\(high.value)"
        }
        guard let copy = node.copy(place.id, of: consumer.bucket) else { return nil }
        let purged = bucket.engine.all[place.number].withCore { $0.purgeSeqno }
        let comparison = ConsumerComparison(
            versions: copy.documents,
            purged: purged,
            isComplete: true
        )
        return comparison.finalFlaw(in: place.view)
    }

    /// Every value that a consumer received was sent by a client, and not refused.
    private func checkValues() {
        for bucket in buckets {
            let sent = verifier.sentValues(of: bucket.name)
            for consumer in consumers where consumer.bucket == bucket.name {
                for place in consumer.places {
                    checkValues(place.view.received, sent, consumer: consumer)
                }
            }
        }
    }

    private func checkValues(
        _ received: [[UInt8]: Set<[UInt8]>],
        _ sent: [String: Set<[UInt8]>],
        consumer: SimulatedConsumer
    ) {
        for (key, values) in received {
            let name = String(decoding: key, as: UTF8.self)
            guard let known = sent[name] else { continue }
            for value in values.subtracting(known) {
                consumer.reportFlaw(
                    "\(name) was sent as \(RegisterOperation.text(value)), which no client wrote, "
                        + "or which was refused"
                )
            }
        }
    }
}
