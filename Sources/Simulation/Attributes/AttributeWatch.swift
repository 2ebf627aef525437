internal import Bytes
internal import DataService
internal import Engine
internal import Seams
internal import Server
internal import SimulatedPlatform
internal import Vocabulary

/// Lets clients write documents with extended attributes and macros, and shows the checker all copies
/// in memory and on disk; feeds and their clients show it what they receive (`Verifier.sees`).
///
/// - Attributes: all copies, disks and feeds show a version with the same attributes and body, with
///   the right numbers in place of the macros (`AttributeLedger`).
/// - In seeds in which a CAS may name two versions (`Chaos.setsClocksBack`) the ledger names a version
///   by its history too.
///
/// Runs in a third of the standard seeds, and in each seed of the workload `attributes`. The random
/// numbers are separate sequences, so other seeds are as without it.
final class AttributeWatch {
    private static let inspectionNanoseconds: UInt64 = 50_000_000
    /// Inspections of memory between two of a vBucket on disk.
    private static let diskInterval = 40

    private let cluster: SimulatedCluster
    private let verifier: Verifier
    private let buckets: [BucketSettings]
    private let writersOfBucket: Int
    private var writers: [AttributeWriter] = []
    private var inspections = 0
    private var disks = 0

    static func runs(_ plan: SimulationPlan) -> Bool {
        plan.workload == "attributes"
            || (plan.workload == "standard" && [0, 4, 8].contains(plan.seed % 9))
    }

    /// - Returns: Nil if the seed has no attributes.
    init?(
        _ cluster: SimulatedCluster,
        _ verifier: Verifier,
        plan: SimulationPlan,
        buckets: [BucketSettings],
        namesHistories: Bool
    ) {
        guard AttributeWatch.runs(plan) else { return nil }
        self.cluster = cluster
        self.verifier = verifier
        self.buckets = buckets
        writersOfBucket = plan.workload == "attributes" ? 2 : 1
        verifier.attributes = AttributeLedger(namesHistories: namesHistories)
    }

    /// Starts the writers on the machine of the clients.
    func start(_ environment: Environment) {
        for bucket in buckets {
            for number in 0..<writersOfBucket {
                let writer = AttributeWriter(
                    number,
                    bucket,
                    cluster: cluster,
                    environment: environment,
                    verifier: verifier
                )
                writers.append(writer)
                writer.start()
            }
        }
        inspectLater()
    }

    /// Ends the writes.
    func end() {
        for writer in writers { writer.stop() }
    }

    var isIdle: Bool { writers.allSatisfy(\.isIdle) }

    var tally: Tally {
        var tally = Tally()
        for writer in writers { tally.add(writer.tally) }
        guard let ledger = verifier.attributes else { return tally }
        tally[.check, "attributeSightings"] = ledger.compared
        tally[.check, "expandedMacros"] = ledger.expanded
        tally[.check, "attributeWrites"] = ledger.confirmed
        tally[.check, "attributeChanges"] = ledger.sent
        tally[.check, "attributeDisks"] = disks
        return tally
    }

    // MARK: Copies

    private func inspectLater() {
        cluster.world.after(AttributeWatch.inspectionNanoseconds) { [weak self] in
            guard let self, !verifier.hasFatalFlaw else { return }
            inspections += 1
            for node in cluster.nodes { inspectMemory(of: node) }
            if inspections % AttributeWatch.diskInterval == 0 { inspectDisk() }
            inspectLater()
        }
    }

    private func inspectMemory(of node: SimulatedNode) {
        guard let data = node.node?.data else { return }
        for settings in buckets {
            guard let bucket = data.bucket(named: settings.name) else { continue }
            for writer in writers where writer.bucket == settings.name {
                for key in writer.keys { inspect(key, bucket, on: node) }
            }
            for vBucket in bucket.engine.all { inspectPrepares(of: vBucket, bucket, node) }
        }
    }

    private func inspect(_ key: [UInt8], _ bucket: OpenBucket, on node: SimulatedNode) {
        let id = VBucketID(ofKey: key, count: bucket.engine.all.count)
        let vBucket = bucket.engine.all[Int(id.number)]
        let hash = bucket.engine.hash
        key.withUnsafeBytes { bytes in
            let view = ByteView(bytes)
            let found: (version: CopyContent.Version, log: FailoverLog?)? = vBucket.withCore {
                core in
                guard core.ownership.exists, !core.ownership.isResetting, core.isLoaded else {
                    return nil
                }
                return core.table.find(view, hash: hash(view)).map {
                    (CopyContent.Version($0.item), core.logOfAllChanges)
                }
            }
            guard let (version, log) = found else { return }
            verifier.sees(
                version,
                of: view,
                in: bucket.name,
                by: AttributeLedger.Source("the memory of \(node.address)", log: log)
            )
        }
    }

    private func inspectPrepares(
        of vBucket: VBucket,
        _ bucket: OpenBucket,
        _ node: SimulatedNode
    ) {
        var found: [(key: [UInt8], version: CopyContent.Version)] = []
        var log: FailoverLog?
        vBucket.withCore { core in
            guard core.hasPrepares, !core.ownership.isResetting else { return }
            log = core.logOfAllChanges
            core.forEachPrepare { item in
                guard AttributeLedger.names(item.key) else { return }
                found.append((item.key.bytes, CopyContent.Version(item)))
            }
        }
        let source = AttributeLedger.Source(
            "a prepare of \(node.address)",
            log: log,
            isPrepare: true
        )
        for (key, version) in found {
            key.withUnsafeBytes {
                verifier.sees(version, of: ByteView($0), in: bucket.name, by: source)
            }
        }
    }

    /// Inspects one vBucket on the disk of one node: another one each time.
    private func inspectDisk() {
        let turn = inspections / AttributeWatch.diskInterval
        let node = cluster.nodes[turn % cluster.nodes.count]
        guard let settings = buckets.first(where: { $0.type == .persistent }),
            !node.host.isFrozen, !node.isStopping,
            let bucket = node.node?.data.bucket(named: settings.name)
        else { return }
        let number = turn / cluster.nodes.count % bucket.engine.all.count
        inspectDisk(VBucketID(UInt16(number)), bucket, on: node)
    }

    private func inspectDisk(_ id: VBucketID, _ bucket: OpenBucket, on node: SimulatedNode) {
        guard let stored = CopyContent.onDisk(id, bucket) else { return }
        disks += 1
        // The file has changes of the copy in memory alone, unless the copy is being emptied.
        let log: FailoverLog? = bucket.engine.all[Int(id.number)].withCore { core in
            core.isLoaded && !core.ownership.isResetting ? core.logOfAllChanges : nil
        }
        let source = AttributeLedger.Source("the disk of \(node.address)", log: log)
        for key in stored.keys.sorted(by: { $0.lexicographicallyPrecedes($1) }) {
            guard let version = stored[key] else { continue }
            key.withUnsafeBytes {
                verifier.sees(version, of: ByteView($0), in: bucket.name, by: source)
            }
        }
    }

    // MARK: The end

    /// Inspects all copies and disks; call it when the copies have converged.
    func conclude() {
        guard verifier.violations.isEmpty else { return }
        for node in cluster.nodes {
            inspectMemory(of: node)
            for settings in buckets {
                guard let bucket = node.node?.data.bucket(named: settings.name),
                    bucket.disk != nil
                else { continue }
                for number in bucket.engine.all.indices {
                    inspectDisk(VBucketID(UInt16(number)), bucket, on: node)
                }
            }
        }
    }
}

extension VBucketCore {
    /// The failover log; nil if it does not cover all changes of the copy: those of an open snapshot lie
    /// above the seqno that the log of a replica ends with.
    fileprivate var logOfAllChanges: FailoverLog? { openSnapshot == nil ? failoverLog : nil }
}
