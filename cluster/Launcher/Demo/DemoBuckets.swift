internal import Foundation

/// The demo's buckets, and the file by which it recognises them: `demo.json` in the cluster's
/// directory has the UUIDs of the buckets that the demo has made.
///
/// A bucket of the same name that is not in the file has documents of a user, and is refused.
struct DemoBuckets {
    /// The bucket of the documents.
    static let documents = BucketRequest(name: "demo", isPasswordless: true)
    /// The bucket of the load test's keys.
    static let load = BucketRequest(name: "demo-load")

    private struct Record: Codable {
        /// UUIDs by bucket name.
        var buckets: [String: String] = [:]
        /// The UUID of the bucket that has all documents.
        var loaded: String?
    }

    private let path: String
    private var record: Record

    /// - Parameter directory: The directory of the cluster.
    /// - Throws: `Refusal` if the file is there and cannot be read.
    init(in directory: String) throws {
        path = directory + "/demo.json"
        guard let data = FileManager.default.contents(atPath: path) else {
            record = Record()
            return
        }
        do {
            record = try JSONDecoder().decode(Record.self, from: data)
        } catch {
            throw Refusal("\(path) cannot be read: \(error).", cure: "Name another --dir.")
        }
    }

    /// Creates the buckets that are missing, and waits until they serve.
    ///
    /// - Returns: All buckets of the cluster.
    /// - Throws: `Refusal` if a bucket with such a name was not made by the demo.
    mutating func create(_ provisioning: Provisioning, kvPorts: [Int]) throws -> [BucketStatus] {
        let wanted = [DemoBuckets.documents, DemoBuckets.load]
        let present = try provisioning.buckets()
        let strange = wanted.first { bucket in
            present.contains { $0.name == bucket.name && record.buckets[$0.name] != $0.uuid }
        }
        if let strange {
            throw Refusal(
                "This cluster has a bucket \(strange.name) that the demo did not make. It was not "
                    + "changed.",
                cure: "Name another directory with --dir, or delete the bucket on the page."
            )
        }
        for bucket in wanted where !present.contains(where: { $0.name == bucket.name }) {
            _ = try provisioning.create([bucket])
            record.buckets[bucket.name] = try provisioning.buckets()
                .first { $0.name == bucket.name }?.uuid
            try store()
        }
        return try provisioning.awaitServing(kvPorts: kvPorts)
    }

    /// Whether an earlier run has loaded all documents into this bucket.
    func isLoaded(_ bucket: BucketStatus) -> Bool { record.loaded == bucket.uuid }

    mutating func setLoaded(_ bucket: BucketStatus) throws {
        record.loaded = bucket.uuid
        try store()
    }

    private func store() throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        try encoder.encode(record).write(to: URL(filePath: path), options: .atomic)
    }
}
