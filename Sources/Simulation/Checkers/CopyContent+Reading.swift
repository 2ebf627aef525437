internal import Bytes
internal import DataService
internal import Engine
internal import Persistence
internal import Server
internal import Vocabulary

extension SimulatedNode {
    /// The content of a node's copy, from memory and, for ejected documents, from disk.
    ///
    /// Nil if the copy does not exist, is resetting or not loaded, or its disk cannot be read.
    func copy(_ vBucket: VBucketID, of name: String) -> CopyContent? {
        guard let bucket = node?.data.bucket(named: name) else { return nil }
        var isWhole = true
        var content: CopyContent? = bucket.engine.all[Int(vBucket.number)].withCore { core in
            guard core.ownership.exists, !core.ownership.isResetting, core.isLoaded else {
                return nil
            }
            var content = CopyContent(
                log: core.failoverLog,
                covered: core.coveredSeqno,
                documents: [:]
            )
            content.prepares = core.outstandingPrepares.count
            var place: UInt64? = 0
            while let from = place {
                place = core.table.visit(from: from, groupsMax: 64) { item in
                    content.documents[item.key.bytes] = CopyContent.Version(item)
                }
            }
            isWhole =
                core.ejectedCount == 0 && core.ejectedTombstoneCount == 0
                && core.table.stubCount == 0
            return content
        }
        guard !isWhole else { return content }
        return content?.readRest(of: vBucket, bucket) == true ? content : nil
    }
}

extension CopyContent.Version {
    /// A version in memory.
    init(_ item: Item) {
        self.init(item.meta, item.isEjected ? nil : item.value)
    }
}

extension CopyContent {
    /// Adds ejected documents from disk; returns whether the disk could be read.
    fileprivate mutating func readRest(of vBucket: VBucketID, _ bucket: OpenBucket) -> Bool {
        guard let file = bucket.disk?.file(of: vBucket) else { return false }
        let table = bucket.engine.all[Int(vBucket.number)]
        let hash = bucket.engine.hash
        do throws(StorageError) {
            let scan = try file.scan(vBucket, after: .zero)
            var isEnded = false
            while !isEnded {
                let progress = try scan.readSlice(
                    isNeeded: { key, seqno in
                        table.withCore {
                            $0.currentSeqno(of: key, hash: hash(key), asked: seqno) == seqno
                        }
                    },
                    prepare: { _ in },
                    visit: { meta, key, value in
                        documents[key.bytes] = Version(meta, value)
                    }
                )
                isEnded = progress == .ended
            }
            return true
        } catch {
            return false
        }
    }
}
