internal import Foundation

/// Makes a cluster out of a node that runs: administrator, quota, buckets; and waits for them.
struct Provisioning {
    let admin: AdminClient
    let nodeCount: Int

    /// Names the administrator and the quota, where nobody did so before.
    func provision() throws {
        guard try admin.require("GET", "/pools").json(Pools.self).pools.isEmpty else { return }
        try admin.require(
            "POST",
            "/clusterInit",
            form: [
                ("port", "SAME"), ("username", admin.credentials.user),
                ("password", admin.credentials.password), ("services", "kv"),
                ("memoryQuota", String(quotaMegabytes)),
            ]
        )
    }

    /// Makes the buckets that are not there; one that is there stays as it is.
    func create(_ requests: [BucketRequest]) throws {
        let present = Set(try buckets().map(\.name))
        for request in requests {
            if present.contains(request.name) {
                note("Bucket \(request.name) is there already and stays as it is.")
            } else {
                try create(request)
            }
        }
    }

    private func create(_ request: BucketRequest) throws {
        let reply = try admin.request("POST", "/pools/default/buckets", form: request.form)
        guard (200...299).contains(reply.status) else {
            let errors = try? reply.json(Errors.self).errors.values.sorted().joined(separator: " ")
            throw Refusal(
                "The cluster refused bucket \(request.name): \(errors ?? reply.text)",
                cure: "A bucket is asked for as NAME[:MB[:REPLICAS[:passwordless]]]."
            )
        }
    }

    func buckets() throws -> [BucketStatus] {
        try admin.require("GET", "/pools/default/buckets").json([BucketStatus].self)
    }

    /// Waits until every bucket is healthy on all nodes and takes requests on the data port.
    func awaitServing(kvPorts: [Int]) throws -> [BucketStatus] {
        let deadline = Deadline(seconds: 120)
        let start = Deadline(seconds: 2)
        var told = false
        while true {
            let buckets = try buckets()
            let waitingFor = try buckets.filter { bucket in
                try !bucket.isHealthy || !kvPorts.allSatisfy { try serves(bucket.name, kvPort: $0) }
            }
            if waitingFor.isEmpty { return buckets }
            let names = waitingFor.map(\.name).joined(separator: ", ")
            if deadline.hasPassed {
                throw Refusal(
                    "These buckets do not serve after two minutes: \(names).",
                    cure: "The log says why: cluster/logs 0"
                )
            }
            if start.hasPassed, !told {
                note("Waiting for: \(names)")
                told = true
            }
            pause(milliseconds: 10)
        }
    }

    /// Whether the bucket can be selected on the data port, which is what clients do first.
    private func serves(_ name: String, kvPort: Int) throws -> Bool {
        let client = try MemcachedClient(port: kvPort)
        let login = try client.logIn(
            user: admin.credentials.user,
            password: admin.credentials.password
        )
        guard login.status == 0 else {
            throw Refusal("The data port refused the administrator (status \(login.status)).")
        }
        return try client.selectBucket(name).status == 0
    }

    /// Half of the memory there is, dealt out to the nodes, but at least 2 GiB each.
    private var quotaMegabytes: Int {
        max(2_048, Int(memoryBytes() >> 20) / 2 / max(1, nodeCount))
    }

    private struct Pools: Decodable {
        struct Pool: Decodable {
            let name: String
        }

        let pools: [Pool]
    }

    private struct Errors: Decodable {
        let errors: [String: String]
    }
}

/// A bucket as the cluster reports it.
struct BucketStatus: Decodable {
    struct Node: Decodable {
        let status: String
    }

    struct Quota: Decodable {
        let rawRAM: UInt64
    }

    struct Statistics: Decodable {
        let itemCount: Int?
    }

    let name: String
    let nodes: [Node]
    let quota: Quota
    let replicaNumber: Int
    let numVBuckets: Int
    let passwordless: Bool?
    let basicStats: Statistics?

    var isHealthy: Bool { nodes.allSatisfy { $0.status == "healthy" } && !nodes.isEmpty }
}

/// Bytes of memory there are for us: the machine's, or the limit of the control group we run in.
func memoryBytes() -> UInt64 {
    let machine = UInt64(sysconf(Int32(_SC_PHYS_PAGES))) * UInt64(sysconf(Int32(_SC_PAGESIZE)))
    let limit = try? String(contentsOfFile: "/sys/fs/cgroup/memory.max", encoding: .utf8)
    let number = limit.flatMap { UInt64($0.trimmingCharacters(in: .whitespacesAndNewlines)) }
    return min(machine, number ?? .max)
}
