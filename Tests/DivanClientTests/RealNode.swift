import Bytes
import Credentials
import DataService
import DivanClient
import Foundation
import LinuxPlatform
import Seams
import Vocabulary

/// A data service on this machine, with real sockets and files.
final class RealNode: Sendable {
    let world: LinuxEnvironment
    let service: DocumentService
    let directory: String
    let address: SocketAddress
    private let listener: any Listener

    init(
        directory: String = RealNode.freshDirectory(),
        port: UInt16 = 0,
        buckets: [(name: String, type: BucketType)] = [("documents", .ephemeral)]
    ) throws {
        self.directory = directory
        world = LinuxEnvironment.make(reactors: 2, logLevel: .fault)
        service = DocumentService(
            environment: world.environment,
            version: "7.6.2",
            dataDirectory: directory,
            plainBucketName: nil
        )
        for bucket in buckets { try service.open(RealNode.settings(bucket.name, bucket.type)) }
        service.setCredentials(user: "Administrator", stored: RealNode.credentials("secret"))
        listener = try service.listen(on: SocketAddress(host: "127.0.0.1", port: port))
        address = listener.address
        for (name, _) in buckets {
            let json = MapText(rev: 1, ports: [address.port], bucket: name).bytes
            service.publish(.init(epoch: 1, revision: 1, json: json), ofBucket: name)
        }
    }

    static func freshDirectory() -> String {
        FileManager.default.temporaryDirectory.appending(path: "divan-\(UUID().uuidString)").path
    }

    static func credentials(_ password: String) -> StoredCredentials {
        Array(password.utf8).withUnsafeBytes { password in
            StoredCredentials.derive(password: ByteView(password), iterations: 16) { _ in
                [UInt8](repeating: 7, count: StoredCredentials.saltByteCount)
            }
        }
    }

    private static func settings(_ name: String, _ type: BucketType) -> BucketSettings {
        var settings = BucketSettings(
            name: name,
            uuid: "0123456789abcdef0123456789abcdef",
            quota: 1 << 30
        )
        settings.type = type
        settings.vBuckets = 64
        settings.evictionPolicy = type == .persistent ? .valueOnly : .noEviction
        return settings
    }

    /// Persists everything and closes the port; the files stay.
    func stop() async {
        listener.close()
        await withCheckedContinuation { waiter in service.stop { waiter.resume() } }
        service.stopLanes()
        world.stop()
    }

    func remove() async {
        await stop()
        try? FileManager.default.removeItem(atPath: directory)
    }

    func client(
        _ bucket: String = "documents",
        password: String = "secret",
        _ change: (inout ClientSettings) -> Void = { _ in }
    ) async throws(ClientError) -> Client {
        var settings = ClientSettings(
            bootstrap: [address],
            bucket: bucket,
            user: "Administrator",
            password: password
        )
        change(&settings)
        return try await Client.open(settings, environment: world.environment)
    }
}

/// The error of an operation; nil if it succeeds.
func failure<Value>(
    _ body: () async throws(ClientError) -> Value
) async -> ClientError? {
    do throws(ClientError) {
        _ = try await body()
        return nil
    } catch {
        return error
    }
}

/// The error of an operation of a client; nil if it succeeds.
func failure<Value: Sendable>(
    _ client: Client,
    _ begin: (Client, @escaping Client.Handler<Value>) -> Void
) async -> ClientError? {
    await failure { () async throws(ClientError) in try await client.perform(begin) }
}

/// The operations that most tests are about.
extension Client {
    func get(_ key: String) async throws(ClientError) -> Document {
        try await perform { $0.get(key.bytes, done: $1) }
    }

    @discardableResult
    func set(
        _ key: String,
        _ value: [UInt8],
        _ options: WriteOptions = .plain
    ) async throws(ClientError) -> MutationResult {
        try await perform { $0.set(key.bytes, value, options: options, done: $1) }
    }
}

extension WriteOptions {
    static func ifUnchanged(since cas: CAS) -> WriteOptions {
        var options = WriteOptions()
        options.cas = cas
        return options
    }
}

extension String {
    var bytes: [UInt8] { Array(utf8) }
}
