package import Bytes
package import Vocabulary

/// One bucket on one node: its memory account and its vBuckets.
///
/// Reactors look vBuckets up by number without a lock; the array never changes after `init`.
@usableFromInline
package final class Bucket: Sendable {
    package let name: String
    package let uuid: String
    package let type: BucketType
    package let account: MemoryAccount
    package let hash: KeyHash
    @usableFromInline let vBuckets: [VBucket]
    private let roots: SharedWord
    /// The index of the policy in `policies`; stored after the tables' roots.
    private let policyWord: SharedWord
    private static let policies: [EvictionPolicy] = [
        .valueOnly, .fullEviction, .noEviction, .nruEviction,
    ]

    /// - Parameters:
    ///   - settings: The bucket's name, type, quota and number of vBuckets.
    ///   - hash: Places keys in tables; the same for all buckets of a node.
    ///   - reclaimer: Frees tables that reactors may still read.
    ///   - newUUID: Returns the UUID of a vBucket's first history.
    package init(
        _ settings: BucketSettings,
        hash: KeyHash,
        reclaimer: Reclaimer,
        newUUID: () -> VBucketUUID
    ) {
        name = settings.name
        uuid = settings.uuid
        type = settings.type
        account = MemoryAccount(quota: settings.quota)
        self.hash = hash
        roots = SharedWord.allocated(count: settings.vBuckets + 1)
        let words = roots.address
        policyWord = SharedWord(at: words + settings.vBuckets)
        var made: [VBucket] = []
        made.reserveCapacity(settings.vBuckets)
        for number in 0..<settings.vBuckets {
            let root = SharedWord(at: words + number)
            let table = HashTable(
                root: root,
                hash: hash,
                account: account,
                reclaimer: reclaimer
            )
            let core = VBucketCore(
                id: VBucketID(UInt16(number)),
                uuid: newUUID(),
                table: table,
                account: account,
                isPersistent: settings.type == .persistent,
                ejectsWhole: settings.evictionPolicy == .fullEviction
            )
            made.append(VBucket(core, root: root))
        }
        vBuckets = made
        evictionPolicy = settings.evictionPolicy
    }

    /// The policy by which the item pager ejects; may change while the bucket serves.
    ///
    /// Fully ejected documents stay on disk under `valueOnly`: as under `fullEviction`, they are
    /// loaded when a command accesses them.
    package var evictionPolicy: EvictionPolicy {
        get { Bucket.policies[Int(policyWord.load())] }
        set {
            guard let place = Bucket.policies.firstIndex(of: newValue) else {
                preconditionFailure("every policy has a place")
            }
            policyWord.store(UInt64(place))
            for vBucket in vBuckets {
                vBucket.withCore { $0.ejectsWhole = newValue == .fullEviction }
            }
        }
    }

    deinit {
        for vBucket in vBuckets {
            vBucket.withCore { $0.removeAll() }
            vBucket.destroy()
        }
        roots.address.deallocate()
    }

    package var isPersistent: Bool { type == .persistent }

    package var count: Int { vBuckets.count }

    /// The vBucket with a number that a client sent; nil if the bucket has no such vBucket.
    @inlinable @inline(__always)
    package subscript(number: UInt16) -> VBucket? {
        Int(number) < vBuckets.count ? vBuckets[Int(number)] : nil
    }

    package var all: [VBucket] { vBuckets }
}
