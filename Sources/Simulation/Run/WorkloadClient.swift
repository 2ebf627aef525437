internal import Bytes
internal import DivanClient
internal import Orchestration
internal import Seams
internal import SimulatedPlatform
internal import Vocabulary

/// One user of a bucket: a `DivanClient` with one operation at a time and pauses between.
///
/// Each client has keys that only it writes, and reads those of all clients; and all clients of a
/// bucket write its registers (`WorkloadClient+Registers`).
final class WorkloadClient: @unchecked Sendable {  // tidy:allow one thread, and a check for it
    let bucket: BucketSettings
    let number: Int
    let verifier: Verifier
    let world: SimulatedWorld
    let workload: Workload
    private let clients: Int
    private let environment: Environment
    private let lane: any Lane
    private let settings: ClientSettings
    /// Whether any node knows the bucket, since a failed connection costs a verification of the
    /// password.
    private let isThere: () -> Bool
    private(set) var client: Client?
    var random: SeededRandom
    private var crashes: SeededRandom
    private var values = 0
    private var map: ClusterMap?
    /// The value and CAS that this client last read of each register.
    var known: [Verifier.Document: (value: [UInt8], cas: CAS)] = [:]
    private(set) var tally = Tally()
    private var isStopping = false
    /// No operation is pending.
    private(set) var isIdle = true

    /// Makes a client; `clients` is the number of clients of the bucket, including this one.
    init(
        _ number: Int,
        of clients: Int,
        bucket: BucketSettings,
        workload: Workload,
        cluster: SimulatedCluster,
        environment: Environment,
        verifier: Verifier
    ) {
        self.number = number
        self.clients = clients
        self.bucket = bucket
        self.workload = workload
        self.verifier = verifier
        self.environment = environment
        world = cluster.world
        isThere = { [weak cluster] in cluster?.newestState?.bucket(named: bucket.name) != nil }
        let name = "client \(bucket.name) \(number)"
        lane = environment.lanes.makeLane(name)
        random = cluster.world.random(for: name)
        crashes = cluster.world.random(for: "end of " + name)
        var settings = cluster.clientSettings
        settings.bucket = bucket.name
        settings.durableTimeoutMilliseconds = workload.durableMilliseconds
        self.settings = settings
    }

    // MARK: Start and end

    func start() {
        lane.post { [self] in open() }
        scheduleCrash()
    }

    private func open() {
        guard !isStopping else { return }
        guard isThere() else { return openLater(500_000_000) }
        let client = Client(settings, environment: environment, lane: lane)
        client.open { [self] result in
            switch result {
            case .success:
                self.client = client
                scheduleOperation()
            case .failure: openLater(300_000_000)
            }
        }
    }

    private func openLater(_ nanoseconds: UInt64) {
        lane.post(after: nanoseconds) { [self] in open() }
    }

    /// Starts no further operation.
    func stop() { isStopping = true }

    /// Ends the client at random times during operations, whose outcomes are then unknown; a new
    /// client with the same keys and without known values replaces it.
    private func scheduleCrash() {
        guard workload.clientSeconds > 0 else { return }
        let range = 2 * workload.clientSeconds * 1_000_000_000
        lane.post(after: crashes.next() % range) { [self] in
            guard !isStopping else { return }
            crash()
            scheduleCrash()
        }
    }

    private func crash() {
        guard let gone = client else { return }
        client = nil
        map = nil
        known = [:]
        tally[.change, "clientCrash"] += 1
        world.transcript.note("client \(bucket.name) \(number) ends")
        // Closing completes pending operations with an error.
        gone.close {}
        openLater(100_000_000)
    }

    // MARK: Operations

    private func scheduleOperation() {
        guard !isStopping else { return }
        lane.post(after: random.next() % (2 * workload.thinkNanoseconds)) { [self] in
            act()
        }
    }

    private func act() {
        guard !isStopping, let client else { return }
        isIdle = false
        client.currentMap { [self] map in
            guard let map else { return }
            if map != self.map { verifier.sees(map, after: self.map) }
            self.map = map
        }
        let isRegister =
            hasRegisters && (workload.keysOfClient == 0 || random.next() % 5 < 2)
        if isRegister { return actOnRegister(client) }
        let isForeign = random.next() % 10 == 0
        let owner = isForeign ? Int(random.next() % UInt64(clients)) : number
        let document = document(Int(random.next() % UInt64(workload.keysOfClient)), of: owner)
        switch random.next() % 10 {
        case 0...4 where owner == number: set(document, newValue(), options: .plain, by: client)
        case 5 where owner == number: delete(document, isOwner: true, options: .plain, by: client)
        default: get(document, isOwner: owner == number, client)
        }
    }

    var hasRegisters: Bool {
        workload.registers > 0 && bucket.name != SimulationRun.extraName
    }

    /// A value that is unique in the run.
    func newValue() -> [UInt8] {
        values += 1
        return Array("\(number).\(values)".utf8)
    }

    private func document(_ key: Int, of owner: Int) -> Verifier.Document {
        Verifier.Document(bucket: bucket.name, key: "client\(owner)-key\(key)")
    }

    /// Counts a completed operation and schedules the next one.
    func ended(_ kind: String, isDone: Bool = true) {
        tally[.operation, kind] += 1
        if !isDone { tally[.check, "failedOperations"] += 1 }
        isIdle = true
        scheduleOperation()
    }

    func set(
        _ document: Verifier.Document,
        _ value: [UInt8],
        options: WriteOptions,
        by client: Client
    ) {
        verifier.sends(value, to: document)
        let sentAt = world.now
        client.set(Array(document.key.utf8), value, options: options) { [self] result in
            end(.set(value), document, value: value, sentAt: sentAt, result: result.map(\.token))
            ended("set", isDone: (try? result.get()) != nil)
        }
    }

    func delete(
        _ document: Verifier.Document,
        isOwner: Bool,
        options: WriteOptions,
        by client: Client
    ) {
        let sentAt = world.now
        client.delete(Array(document.key.utf8), options) { [self] result in
            if case .failure(let error) = result, error.code == .notFound {
                found(nil, document, isOwner: isOwner, sentAt: sentAt)
                return ended("delete")
            }
            end(.remove, document, value: nil, sentAt: sentAt, result: result.map(\.token))
            ended("delete", isDone: (try? result.get()) != nil)
        }
    }

    func get(_ document: Verifier.Document, isOwner: Bool, _ client: Client) {
        let sentAt = world.now
        client.get(Array(document.key.utf8)) { [self] result in
            switch result {
            case .success(let there):
                known[document] = (there.value, there.cas)
                found(there.value, document, isOwner: isOwner, sentAt: sentAt)
            case .failure(let error) where error.code == .notFound:
                found(nil, document, isOwner: isOwner, sentAt: sentAt)
            case .failure: return ended("get", isDone: false)
            }
            ended("get")
        }
    }

    // MARK: Reports to the verifier

    /// Reports a read.
    func found(
        _ value: [UInt8]?,
        _ document: Verifier.Document,
        isOwner: Bool,
        sentAt: UInt64
    ) {
        verifier.read(document, value, isOwner: isOwner, askedAt: sentAt)
        did(.read(value), document, called: sentAt, returned: world.now)
    }

    /// Reports the result of a write of `value`.
    func end(
        _ action: RegisterOperation.Action,
        _ document: Verifier.Document,
        value: [UInt8]?,
        sentAt: UInt64,
        result: Result<MutationToken?, ClientError>
    ) {
        switch result {
        case .success(let token):
            verifier.acknowledged(document, value, token: token, sentAt: sentAt)
            did(action, document, called: sentAt, returned: world.now)
        case .failure(let error) where error.isAmbiguous:
            verifier.mayHaveWritten(document, value)
            did(action, document, called: sentAt, returned: nil)
        case .failure: if let value, !document.isCounter { verifier.refused(document, value) }
        }
    }

    func did(
        _ action: RegisterOperation.Action,
        _ document: Verifier.Document,
        called: UInt64,
        returned: UInt64?
    ) {
        let operation = RegisterOperation(
            action,
            called: called,
            returned: returned,
            client: number
        )
        verifier.did(document, operation)
    }

    // MARK: Final checks

    /// Reads all keys of this client; passes the number of successful reads to `done`.
    func readAll(_ done: @escaping @Sendable (Int) -> Void) {
        guard let client, workload.keysOfClient > 0 else { return done(0) }
        let left = Guarded((left: workload.keysOfClient, read: 0))
        let sentAt = world.now
        for key in 0..<workload.keysOfClient {
            let document = document(key, of: number)
            client.get(Array(document.key.utf8)) { [self] result in
                var isRead = true
                switch result {
                case .success(let there):
                    found(there.value, document, isOwner: true, sentAt: sentAt)
                case .failure(let error) where error.code == .notFound:
                    found(nil, document, isOwner: true, sentAt: sentAt)
                case .failure: isRead = false
                }
                let (count, read) = left.withLock { left in
                    left.left -= 1
                    if isRead { left.read += 1 }
                    return left
                }
                if count == 0 { done(read) }
            }
        }
    }

    /// Writes to each of these vBuckets; calls `done` with each vBucket's error, nil after success.
    func write(
        to vBuckets: Set<VBucketID>,
        _ options: WriteOptions,
        _ done: @escaping @Sendable (VBucketID, ClientError?) -> Void
    ) {
        guard let client else { return }
        var missing = vBuckets
        var number = 0
        while !missing.isEmpty {
            number += 1
            let key = Array("probe\(self.number)-\(number)".utf8)
            let vBucket = VBucketID(ofKey: key, count: bucket.vBuckets)
            guard missing.remove(vBucket) != nil else { continue }
            client.set(key, Array("1".utf8), options: options) { result in
                switch result {
                case .success: done(vBucket, nil)
                case .failure(let error): done(vBucket, error)
                }
            }
        }
    }
}
