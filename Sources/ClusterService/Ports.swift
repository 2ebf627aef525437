package import Credentials
package import Vocabulary

/// What the cluster service needs from the data service, no more.
///
/// `Server` introduces the two. Every call may come from any thread and returns at once; only the
/// document calls wait, because documents may be on disk.
package protocol DataPlane: Sendable {
    /// Removes what is left of buckets that are not among `buckets` (told apart by UUID): a crash
    /// came between forgetting a bucket and removing its files. Called once, before any `open`.
    func retain(only buckets: [BucketSettings])
    /// Opens a bucket, making its files where there are none; answers at once, warmup goes on
    /// behind.
    func open(_ opening: BucketOpening) throws(DataPlaneError)
    func change(_ settings: BucketSettings)
    /// O(1) for the caller; files go in the background.
    func delete(bucket name: String)
    /// The same where the bucket lives on, on nodes that this one does not belong to any more.
    func giveUp(bucket name: String)
    func flush(bucket name: String) throws(DataPlaneError)
    func compact(bucket name: String)
    func status(ofBucket name: String) -> BucketStatus?
    func statistics(ofBucket name: String) -> BucketStatistics?
    /// New configurations for GET_CLUSTER_CONFIG, rendered.
    func publish(global configuration: Configuration)
    func publish(_ configuration: Configuration, ofBucket name: String)
    /// Who may authenticate by SASL; nil takes the user away.
    func setCredentials(user: String, stored: StoredCredentials?)
    func read(_ key: [UInt8], inBucket name: String) async -> DocumentReading
    /// The expiry is as in the protocol: 0 never, small numbers relative, others since 1970.
    func write(
        _ key: [UInt8],
        value: [UInt8],
        flags: UInt32,
        expiry: UInt32,
        preserveExpiry: Bool,
        inBucket name: String
    ) async -> DocumentWriting
    func delete(_ key: [UInt8], inBucket name: String) async -> DocumentWriting
    /// The key of some document in memory; nil where none is found quickly.
    func randomKey(inBucket name: String) -> [UInt8]?
    /// Documents sorted by key from `from` up to `to`, for the browser page.
    func list(
        bucket: String,
        from: [UInt8]?,
        to: [UInt8]?,
        inclusiveEnd: Bool,
        skip: Int,
        limit: Int,
        withDocuments: Bool
    ) async -> DocumentListing
    /// What an operator should know now: disk full, metadata above quota, a damaged block.
    func alerts() -> [Alert]

    // MARK: Copies

    /// Carries out what the map says of this node's copies; those that come to a fence of `seals`,
    /// which was promised before the node stopped, act no more under it.
    func follow(_ assignment: BucketAssignment, as own: NodeNumber, seals: [FencedVBucket])
    /// All that this node has of a bucket.
    /// Of all its copies, or of these vBuckets'.
    func reports(bucket name: String, of vBuckets: [VBucketID]?) -> [CopyReport]
    /// How far all that this node serves of a bucket is; nil where it has no such bucket.
    func served(bucket name: String) -> ServedHighs?
    /// How many changes copies here discarded since this was asked last, by bucket: they alone had
    /// them.
    func takeDiscarded() -> [String: UInt64]
    /// Has copies take nothing more from the active ones of these fences, and active ones serve no
    /// more; tells of all that were asked for.
    func seal(bucket name: String, _ vBuckets: [FencedVBucket]) -> [CopyReport]
    /// Has copies take up what the map names them for; returns those that are ready.
    func activate(bucket name: String, _ copies: [CopyActivation]) -> [VBucketID]
    /// Has active copies stop for good, each when all of the next chain has everything; `done` gets
    /// those that did.
    func handOver(
        bucket name: String,
        _ vBuckets: [FencedVBucket],
        done: @escaping @Sendable ([HandedOver]) -> Void
    )
    /// Nothing is answered for what this node owns once its clock says so; `.max` for never.
    func setLease(endNanoseconds: UInt64)
    /// Every copy that the map has serve does.
    var isReady: Bool { get }
}

/// A bucket as it is opened on this node.
package struct BucketOpening: Sendable {
    package var settings: BucketSettings
    package var assignment: BucketAssignment
    package var own: NodeNumber
    /// The map made it just now: nobody can have written to it before.
    package var isNew: Bool
    /// What was promised before the node stopped.
    package var seals: [FencedVBucket]
    /// The cluster has no other bucket of this name, by all that it has agreed on: files of another
    /// one are of a bucket that was deleted.
    package var isCurrent = false
}

/// Why a copy is to serve from here on.
package struct CopyActivation: Hashable, Sendable {
    package enum Reason: Hashable, Sendable {
        /// A new history begins at what it has; nil where whatever it has has to do.
        case promotion(expected: CopyPosition?)
        /// The history goes on where the one before ended.
        case takeover(final: Seqno)
        /// It served under this fence until it was stopped, and nobody did since.
        case resumption(fence: UInt64)
    }

    package var vBucket: VBucketID
    /// The map's.
    package var fence: UInt64
    package var reason: Reason

    package init(_ vBucket: VBucketID, _ fence: UInt64, _ reason: Reason) {
        self.vBucket = vBucket
        self.fence = fence
        self.reason = reason
    }
}

package struct HandedOver: Hashable, Sendable {
    package var vBucket: VBucketID
    package var seqno: Seqno

    package init(_ vBucket: VBucketID, _ seqno: Seqno) {
        self.vBucket = vBucket
        self.seqno = seqno
    }
}

/// Why a bucket could not be opened or flushed: a sentence for an operator.
package struct DataPlaneError: Error, Hashable, Sendable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) {
        self.description = description
    }
}

/// How far a bucket is from serving everything.
package enum BucketStatus: Hashable, Sendable {
    /// Progress from 0 to 1.
    case warmingUp(Double)
    case ready
    /// A sentence for an operator.
    case failed(String)
}

/// A rendered configuration and the revision it shows; compared epoch first.
package struct Configuration: Hashable, Sendable {
    package let revEpoch: UInt64
    package let rev: UInt64
    package let json: [UInt8]

    package init(revEpoch: UInt64, rev: UInt64, json: [UInt8]) {
        self.revEpoch = revEpoch
        self.rev = rev
        self.json = json
    }
}

/// Something that is wrong now.
package struct Alert: Hashable, Sendable {
    /// Stays the same while the same thing is wrong.
    package let id: String
    package let message: String

    package init(id: String, message: String) {
        self.id = id
        self.message = message
    }
}

// MARK: Documents

package enum DocumentReading: Sendable {
    case found(DocumentMeta, value: [UInt8])
    case notFound
    case noBucket
    case temporaryFailure
    /// This node does not serve it, or may not.
    case notHere
    case failed(String)
}

package enum DocumentWriting: Sendable {
    case written(CAS)
    case notFound
    case noBucket
    case locked
    case tooBig
    case temporaryFailure
    /// This node does not serve it, or may not: nothing was done.
    case notHere
    case failed(String)
}

package enum DocumentListing: Sendable {
    package struct Row: Sendable {
        package let key: [UInt8]
        /// Both nil where documents were not asked for, or are gone meanwhile.
        package let meta: DocumentMeta?
        package let value: [UInt8]?

        package init(key: [UInt8], meta: DocumentMeta?, value: [UInt8]?) {
            self.key = key
            self.meta = meta
            self.value = value
        }
    }

    case rows([Row])
    case noBucket
    case temporaryFailure
    case failed(String)
}
