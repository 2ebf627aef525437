internal import ArgumentParser

/// A bucket as named on the command line: `NAME[:MB[:REPLICAS[:passwordless]]]`.
struct BucketRequest: ExpressibleByArgument {
    let name: String
    let megabytes: Int
    let replicas: Int
    let isPasswordless: Bool

    init(name: String, megabytes: Int = 100, replicas: Int = 1, isPasswordless: Bool = false) {
        self.name = name
        self.megabytes = megabytes
        self.replicas = replicas
        self.isPasswordless = isPasswordless
    }

    /// Parses the shape only; the server checks the ranges.
    init?(argument: String) {
        let parts = argument.split(separator: ":", omittingEmptySubsequences: false)
        guard (1...4).contains(parts.count), !parts[0].isEmpty else { return nil }
        name = String(parts[0])
        guard let megabytes = parts.count > 1 ? Int(parts[1]) : 100,
            let replicas = parts.count > 2 ? Int(parts[2]) : 1,
            parts.count < 4 || parts[3] == "passwordless"
        else { return nil }
        self.megabytes = megabytes
        self.replicas = replicas
        isPasswordless = parts.count == 4
    }

    /// The form that `POST /pools/default/buckets` takes.
    var form: [(String, String)] {
        [
            ("name", name), ("ramQuotaMB", String(megabytes)), ("bucketType", "couchbase"),
            ("replicaNumber", String(replicas)), ("passwordless", isPasswordless ? "1" : "0"),
        ]
    }
}
