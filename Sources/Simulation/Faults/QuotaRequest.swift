internal import ClusterService
internal import Orchestration
internal import Vocabulary

/// A request that changes the quota of a bucket or of the nodes, the same as a form over HTTP.
enum QuotaRequest: Hashable, Sendable {
    case create(String, megabytes: Int)
    case change(String, megabytes: Int)
    case delete(String)
    case setMemoryQuota(megabytes: Int)

    /// The quotas that decide whether a request is accepted.
    private struct Memory {
        var quota: Int
        var buckets: [String: Int]

        init(_ state: ClusterState) {
            quota = Int(state.memoryQuota >> 20)
            let rows = state.buckets.map { ($0.settings.name, Int($0.settings.quota >> 20)) }
            buckets = Dictionary(uniqueKeysWithValues: rows)
        }

        /// The quotas after a request; nil if the request must be refused.
        func after(_ request: QuotaRequest) -> Memory? {
            var next = self
            switch request {
            case .create(let name, let megabytes):
                guard buckets[name] == nil else { return nil }
                next.buckets[name] = megabytes
            case .change(let name, let megabytes):
                guard buckets[name] != nil else { return nil }
                next.buckets[name] = megabytes
            case .delete(let name):
                guard buckets[name] != nil else { return nil }
                next.buckets[name] = nil
            case .setMemoryQuota(let megabytes): next.quota = megabytes
            }
            return next.buckets.values.reduce(0, +) <= next.quota ? next : nil
        }
    }

    private static let names = ["rival-one", "rival-two"]

    private static let all: [QuotaRequest] =
        names.flatMap { name -> [QuotaRequest] in
            let changes = [300, 150].map { QuotaRequest.change(name, megabytes: $0) }
            return [.create(name, megabytes: 220), .delete(name)] + changes
        } + [420, 512].map { .setMemoryQuota(megabytes: $0) }

    /// Two requests that are each acceptable in a state but, if possible, not both.
    ///
    /// - Parameters:
    ///   - state: A node's state.
    ///   - pick: A random index below its argument.
    /// - Returns: Two requests, which may be equal; empty if there is none.
    static func rivals(in state: ClusterState, _ pick: (Int) -> Int) -> [QuotaRequest] {
        let memory = Memory(state)
        let possible = all.filter { memory.after($0) != nil }
        // The current memory quota can always be set again, so this is rare.
        guard !possible.isEmpty else { return [] }
        let first = possible[pick(possible.count)]
        let after = memory.after(first)
        let rivals = possible.filter { after?.after($0) == nil }
        let second = rivals.isEmpty ? possible[pick(possible.count)] : rivals[pick(rivals.count)]
        return [first, second]
    }

    /// Sends the request to a node.
    ///
    /// - Throws: `AdministrationError` if it is not carried out.
    /// - Returns: The text of its success.
    func make(of service: AdministrationService) async throws(AdministrationError) -> String {
        switch self {
        case .create(let name, let megabytes):
            let form = FormParameters([
                ("name", name), ("ramQuota", "\(megabytes)"), ("bucketType", "ephemeral"),
                ("numVBuckets", "64"), ("replicaNumber", "1"),
            ])
            try await service.buckets.create(form)
        case .change(let name, let megabytes):
            let form = FormParameters([("ramQuota", "\(megabytes)")])
            try await service.buckets.change(name, form)
        case .delete(let name):
            try await service.buckets.delete(name)
        case .setMemoryQuota(let megabytes):
            try await service.settings.change(FormParameters([("memoryQuota", "\(megabytes)")]))
        }
        return "done"
    }
}
