internal import DivanClient
internal import Seams
internal import Vocabulary

/// Writes documents that expire after a second, and reads them later, so that they do.
///
/// Its keys are its own: no other checker checks them.
final class ExpiringWriter: @unchecked Sendable {  // tidy:allow one thread, and a check for it
    private static let second: UInt64 = 1_000_000_000
    private static let keys = 24

    private let environment: Environment
    private let lane: any Lane
    private let settings: ClientSettings
    private var client: Client?
    private var number = 0
    private var isOver = false

    init(_ bucket: BucketSettings, _ cluster: SimulatedCluster, environment: Environment) {
        self.environment = environment
        lane = environment.lanes.makeLane("expiring \(bucket.name)")
        var settings = cluster.clientSettings
        settings.bucket = bucket.name
        self.settings = settings
    }

    func start() {
        lane.post { [self] in open() }
    }

    func stop() { isOver = true }

    private func open() {
        guard !isOver else { return }
        let client = Client(settings, environment: environment, lane: lane)
        client.open { [self] result in
            if case .success = result {
                self.client = client
                write()
            } else {
                lane.post(after: ExpiringWriter.second) { [self] in open() }
            }
        }
    }

    /// Writes a document, and reads the one that was written first of the last ones.
    private func write() {
        guard !isOver, let client else { return }
        number += 1
        var options = WriteOptions.plain
        options.expiry = .afterSeconds(1)
        client.set(key(number), Array("1".utf8), options: options) { _ in }
        client.get(key(number + ExpiringWriter.keys / 2)) { _ in }
        lane.post(after: ExpiringWriter.second / 4) { [self] in write() }
    }

    private func key(_ number: Int) -> [UInt8] {
        Array("expiring\(number % ExpiringWriter.keys)".utf8)
    }
}
