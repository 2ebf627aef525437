internal import DivanClient
internal import Foundation

/// Provisions a running node as a cluster: administrator, quota and buckets; and waits for them.
struct Provisioning {
    let admin: AdminClient
    let nodeCount: Int

    /// Sets the administrator and the quota, if the node has none.
    func provision() throws {
        guard try !admin.hasCluster else { return }
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

    /// Creates missing buckets; an existing one is not changed.
    ///
    /// - Returns: A sentence for each existing bucket with other settings than those named.
    /// - Throws: `Refusal` if the cluster refuses a bucket.
    func create(_ requests: [BucketRequest]) throws -> [String] {
        let present = try buckets()
        return try requests.compactMap { request in
            guard let bucket = present.first(where: { $0.name == request.name }) else {
                try create(request)
                return nil
            }
            let differences = request.differences(from: bucket)
            guard !differences.isEmpty else { return nil }
            return "Bucket \(bucket.name) exists with other settings and was not changed: it has "
                + differences.joined(separator: "; ") + ". Change it on the page."
        }
    }

    private func create(_ request: BucketRequest) throws {
        let reply = try admin.request("POST", "/pools/default/buckets", form: request.form)
        guard (200...299).contains(reply.status) else {
            let errors = try? reply.json(Errors.self).errors.values.sorted().joined(separator: " ")
            throw Refusal(
                "The cluster refused bucket \(request.name): \(errors ?? reply.text)",
                cure: "The form of a bucket is NAME[:MB[:REPLICAS[:passwordless]]]."
            )
        }
    }

    func buckets() throws -> [BucketStatus] {
        try admin.require("GET", "/pools/default/buckets").json([BucketStatus].self)
    }

    /// Waits until every bucket is healthy on all nodes and serves requests on the data port.
    func awaitServing(kvPorts: [Int]) throws -> [BucketStatus] {
        let deadline = Deadline(seconds: 120)
        let start = Deadline(seconds: 2)
        var told = false
        var served: Set<Door> = []
        while true {
            let buckets = try buckets()
            let waitingFor = try buckets.filter { bucket in
                guard bucket.isHealthy else { return true }
                let doors = kvPorts.map { Door(bucket: bucket.name, port: $0) }
                for door in doors where !served.contains(door) {
                    guard try serves(door) else { return true }
                    served.insert(door)
                }
                return false
            }
            if waitingFor.isEmpty { return buckets }
            let names = waitingFor.map(\.name).joined(separator: ", ")
            if deadline.hasPassed {
                throw Refusal(
                    "These buckets do not serve after two minutes: \(names).",
                    cure: "The log has the reason: cluster/logs 0"
                )
            }
            if start.hasPassed, !told {
                note("Waiting for: \(names)")
                told = true
            }
            pause(milliseconds: 10)
        }
    }

    /// A bucket at one node's data port.
    private struct Door: Hashable {
        let bucket: String
        let port: Int
    }

    /// Whether a client that knows only this node can log in and gets a map.
    private func serves(_ door: Door) throws -> Bool {
        do throws(ClientError) {
            _ = try BucketClient(
                door.bucket,
                ports: [door.port],
                credentials: admin.credentials,
                seconds: 2
            )
            return true
        } catch {
            guard error.code == .authentication else { return false }
            throw Refusal("The data port \(door.port) refused the administrator: \(error)")
        }
    }

    /// Half of the available memory divided by the nodes, but at least 2 GiB each.
    private var quotaMegabytes: Int {
        max(2_048, Int(memoryBytes() >> 20) / 2 / max(1, nodeCount))
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
    let uuid: String
    let nodes: [Node]
    let quota: Quota
    let replicaNumber: Int
    let numVBuckets: Int
    let passwordless: Bool?
    let basicStats: Statistics?

    var isHealthy: Bool { nodes.allSatisfy { $0.status == "healthy" } && !nodes.isEmpty }
}

/// Bytes of available memory: the machine's, or the limit of this process's control group.
func memoryBytes() -> UInt64 {
    let machine = UInt64(sysconf(Int32(_SC_PHYS_PAGES))) * UInt64(sysconf(Int32(_SC_PAGESIZE)))
    let limit = try? String(contentsOfFile: "/sys/fs/cgroup/memory.max", encoding: .utf8)
    let number = limit.flatMap { UInt64($0.trimmingCharacters(in: .whitespacesAndNewlines)) }
    return min(machine, number ?? .max)
}
