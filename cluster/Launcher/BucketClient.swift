internal import Bytes
internal import DivanClient
internal import Foundation
internal import LinuxPlatform
internal import Seams

/// A bucket through Divan's client library, as applications use it; calls block.
final class BucketClient {
    private let world = LinuxEnvironment.make(reactors: 1, logLevel: .error)
    private let client: Client

    /// Opens the bucket.
    ///
    /// - Parameters:
    ///   - bucket: Its name.
    ///   - ports: Data ports of nodes of this machine, to bootstrap from.
    ///   - credentials: The login.
    ///   - trust: Believes the nodes, whose ports are those with TLS; nil for plain ports.
    ///   - seconds: How long to wait for a node that does not serve the bucket yet.
    /// - Throws: An error with the reason of every node.
    init(
        _ bucket: String,
        ports: [Int],
        credentials: Credentials,
        trust: (any ServerTrust)? = nil,
        seconds: Double = 10
    ) throws(ClientError) {
        var settings = ClientSettings(
            bootstrap: ports.map {
                SocketAddress(host: "127.0.0.1", port: UInt16(truncatingIfNeeded: $0))
            },
            bucket: bucket,
            user: credentials.user,
            password: credentials.password
        )
        settings.trust = trust
        settings.openTimeoutMilliseconds = UInt64(seconds * 1_000)
        let lane = world.environment.network.lane(ofReactor: 0)
        client = Client(settings, environment: world.environment, lane: lane)
        let result = Guarded<Result<Void, ClientError>>(.success(()))
        let done = DispatchSemaphore(value: 0)
        client.open { found in
            result.withLock { $0 = found }
            done.signal()
        }
        done.wait()
        do throws(ClientError) {
            try result.withLock { $0 }.get()
        } catch {
            world.stop()
            throw error
        }
    }

    deinit {
        let done = DispatchSemaphore(value: 0)
        client.close { done.signal() }
        done.wait()
        world.stop()
    }

    /// Stores documents at the same time.
    ///
    /// - Returns: The documents that were not stored, or possibly not, with reasons.
    func store(
        _ documents: ArraySlice<DemoDocument>,
        _ options: WriteOptions
    ) -> [(document: DemoDocument, error: ClientError)] {
        let failed = Guarded<[(document: DemoDocument, error: ClientError)]>([])
        let all = DispatchGroup()
        for document in documents {
            all.enter()
            client.set(document.key, document.json, options: options) { result in
                if case .failure(let error) = result {
                    failed.withLock { $0.append((document, error)) }
                }
                all.leave()
            }
        }
        all.wait()
        return failed.withLock { $0 }
    }
}
