internal import ArgumentParser

/// A bucket as named on the command line: `NAME[:MB[:REPLICAS[:passwordless]]]`.
struct BucketRequest {
    let name: String
    /// Nil if not named: 100 for a new bucket.
    var megabytes: Int?
    /// Nil if not named: 1 for a new bucket.
    var replicas: Int?
    var isPasswordless = false
}

extension BucketRequest: ExpressibleByArgument {
    /// Parses the shape only; the server checks the ranges.
    init?(argument: String) {
        let parts = argument.split(separator: ":", omittingEmptySubsequences: false)
        guard (1...4).contains(parts.count), !parts[0].isEmpty else { return nil }
        name = String(parts[0])
        megabytes = parts.count > 1 ? Int(parts[1]) : nil
        replicas = parts.count > 2 ? Int(parts[2]) : nil
        guard parts.count < 2 || megabytes != nil, parts.count < 3 || replicas != nil,
            parts.count < 4 || parts[3] == "passwordless"
        else { return nil }
        isPasswordless = parts.count == 4
    }

    /// The form that `POST /pools/default/buckets` takes.
    var form: [(String, String)] {
        [
            ("name", name), ("ramQuotaMB", String(megabytes ?? 100)), ("bucketType", "couchbase"),
            ("replicaNumber", String(replicas ?? 1)), ("passwordless", isPasswordless ? "1" : "0"),
        ]
    }

    /// The named settings that an existing bucket does not have, each with the bucket's own.
    func differences(from bucket: BucketStatus) -> [String] {
        var found: [String] = []
        let quota = Int(bucket.quota.rawRAM >> 20)
        if let megabytes, megabytes != quota { found.append("\(quota) MB, not \(megabytes)") }
        if let replicas, replicas != bucket.replicaNumber {
            found.append("replicas: \(bucket.replicaNumber), not \(replicas)")
        }
        if isPasswordless, bucket.passwordless != true { found.append("a password") }
        return found
    }
}
