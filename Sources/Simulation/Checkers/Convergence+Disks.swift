internal import Bytes
internal import DataService
internal import Engine
internal import Orchestration
internal import Persistence
internal import Server
internal import Vocabulary

/// Compares disks with memory.
extension Convergence {
    private typealias OnDisk = (node: SimulatedNode, bucket: OpenBucket, vBucket: VBucketID)

    /// All copies of the map whose buckets are stored on disk.
    private var copiesOnDisk: [OnDisk] {
        guard let state = cluster.newestState else { return [] }
        return cluster.nodes.flatMap { node -> [OnDisk] in
            guard let data = node.node?.data,
                let record = state.nodes.first(where: { $0.host == node.address })
            else { return [] }
            return state.buckets.flatMap { bucket -> [OnDisk] in
                guard let open = data.bucket(named: bucket.settings.name), open.disk != nil else {
                    return []
                }
                return bucket.placements.indices.filter {
                    bucket.placements[$0].chain.contains(record.number)
                }.map { (node, open, VBucketID(UInt16($0))) }
            }
        }
    }

    /// Whether every change is persisted.
    var isOnDisk: Bool {
        copiesOnDisk.allSatisfy { copy in
            copy.bucket.engine.all[Int(copy.vBucket.number)].withCore {
                $0.persistedSeqno >= $0.highSeqno
            }
        }
    }

    /// A sentence for each copy whose disk differs from its memory; empty if all agree.
    func diskFlaws() -> [String] {
        copiesOnDisk.compactMap { copy in
            let name = "\(copy.bucket.name) \(copy.vBucket) at \(copy.node.address)"
            guard let held = copy.node.copy(copy.vBucket, of: copy.bucket.name),
                let stored = CopyContent.onDisk(copy.vBucket, copy.bucket)
            else { return "\(name) cannot be read" }
            let keys = Set(held.documents.keys).union(stored.keys)
            let other = keys.filter { key in
                switch (held.documents[key], stored[key]) {
                case (let memory?, let disk?): !memory.agrees(with: disk)
                // Memory or disk may have purged a tombstone.
                case (let version?, nil), (nil, let version?): !version.isDeleted
                case (nil, nil): false
                }
            }
            guard let first = other.min(by: { $0.lexicographicallyPrecedes($1) }) else {
                return nil
            }
            let (memory, disk) = (held.documents[first], stored[first])
            let key = String(decoding: first, as: UTF8.self)
            return "\(name): the disk differs in \(other.count) keys, as \(key): "
                + "\(memory.map { "\($0)" } ?? "nothing") in memory and "
                + "\(disk.map { "\($0)" } ?? "nothing") on disk"
        }
    }
}

extension CopyContent {
    /// The newest version of each key on disk; nil if it cannot be read.
    static func onDisk(_ vBucket: VBucketID, _ bucket: OpenBucket) -> [[UInt8]: Version]? {
        guard let file = bucket.disk?.file(of: vBucket) else { return nil }
        var stored: [[UInt8]: Version] = [:]
        do throws(StorageError) {
            let scan = try file.scan(vBucket, after: .zero)
            while try scan.readSlice(
                isNeeded: { _, _ in true },
                prepare: { _ in },
                visit: { meta, key, value in
                    let version = Version(meta, value)
                    if let other = stored[key.bytes], other.seqno > version.seqno { return }
                    stored[key.bytes] = version
                }
            ) != .ended {}
            return stored
        } catch {
            return nil
        }
    }
}
