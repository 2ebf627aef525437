internal import ArgumentParser
internal import Bytes
internal import DivanClient
internal import Foundation
internal import LinuxPlatform
internal import Seams
internal import Vocabulary

/// Cluster, login and durability: the options of every command that uses the client library.
struct ClusterOptions: ParsableArguments {
    @Option(help: "Nodes to bootstrap from, as host:port, separated by commas.")
    var bootstrap = "127.0.0.1:11210"

    @OptionGroup var tls: TLSOptions

    @OptionGroup var account: AccountOptions

    @Option(help: "For writes: majority, majorityAndPersistOnActive or persistToMajority.")
    var durability: String?

    @Option(help: "Timeout in milliseconds of one operation with all its attempts.")
    var timeout: UInt64 = 2_500

    func level() throws(BenchError) -> DurabilityLevel? {
        switch durability {
        case nil: return nil
        case "majority": return .majority
        case "majorityAndPersistOnActive": return .majorityAndPersistOnActive
        case "persistToMajority": return .persistToMajority
        case let other: throw BenchError("there is no durability \(other ?? "")")
        }
    }

    /// A client on a lane of its reactor that has a map of the bucket.
    func open(_ environment: Environment) throws(BenchError) -> Client {
        try Client.opened(settings(), environment)
    }

    private func settings() throws(BenchError) -> ClientSettings {
        var nodes: [SocketAddress] = []
        for text in bootstrap.split(separator: ",") {
            guard let address = SocketAddress(parsing: String(text)) else {
                throw BenchError("--bootstrap: \"\(text)\" is not host:port")
            }
            nodes.append(address)
        }
        var settings = ClientSettings(
            bootstrap: nodes,
            bucket: account.bucket,
            user: account.user,
            password: account.secret
        )
        settings.trust = try tls.trust()
        return settings
    }
}

extension Client {
    /// A client on the lane of the only reactor, once it has a map.
    static func opened(
        _ settings: ClientSettings,
        _ environment: Environment
    ) throws(BenchError) -> Client {
        let lane = environment.network.lane(ofReactor: 0)
        let client = Client(settings, environment: environment, lane: lane)
        let found = Guarded<ClientError?>(nil)
        let done = DispatchSemaphore(value: 0)
        client.open { result in
            if case .failure(let error) = result { found.withLock { $0 = error } }
            done.signal()
        }
        done.wait()
        if let error = found.withLock({ $0 }) { throw BenchError(error.description) }
        return client
    }
}
