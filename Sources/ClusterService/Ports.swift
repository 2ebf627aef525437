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
    func open(_ settings: BucketSettings) throws(DataPlaneError)
    func change(_ settings: BucketSettings)
    /// O(1) for the caller; files go in the background.
    func delete(bucket name: String)
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
    case failed(String)
}

package enum DocumentWriting: Sendable {
    case written(CAS)
    case notFound
    case noBucket
    case locked
    case tooBig
    case temporaryFailure
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
