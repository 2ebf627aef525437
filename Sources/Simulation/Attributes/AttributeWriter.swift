internal import Bytes
internal import DivanClient
internal import Seams
internal import SimulatedPlatform
internal import Vocabulary

/// One client that writes documents with extended attributes: the only one that writes its keys.
///
/// - Each write names the version that it replaces, if it can, so that the answer says what the new
///   version is. What it does not know it looks up.
final class AttributeWriter: @unchecked Sendable {  // tidy:allow one thread, and a check for it
    /// The last known version of a document.
    struct Known {
        var cas: CAS
        var isDeleted: Bool
        /// The names of the writes that made the attributes.
        var names: [String: String]
        /// It may expire, or has expired.
        var expires = false
        /// The history of the version and of all versions that it was derived from; nil if they
        /// differ or are not known.
        var history: VBucketUUID?
    }

    enum State {
        case unknown
        case missing
        case known(Known)
    }

    static let second: UInt64 = 1_000_000_000
    private static let keyCount = 8
    private static let thinkNanoseconds: UInt64 = 200_000_000

    let bucket: String
    let keys: [[UInt8]]
    let durabilities: [DurabilityLevel]
    let verifier: Verifier
    private let prefix: String
    private let lane: any Lane
    private let makeClient: (any Lane) -> Client
    private var dice: SeededRandom
    private var client: Client?
    private var writes = 0
    var work = Work()

    /// The mutable state of the writer: key states, counts and flags.
    struct Work {
        var states: [[UInt8]: State] = [:]
        /// Keys whose last known version may have been replaced by a write of unknown outcome.
        var doubts: Set<[UInt8]> = []
        var tally = Tally()
        var isOver = false
        var isIdle = true
    }

    init(
        _ number: Int,
        _ bucket: BucketSettings,
        cluster: SimulatedCluster,
        environment: Environment,
        verifier: Verifier
    ) {
        self.bucket = bucket.name
        self.verifier = verifier
        prefix = "\(number)"
        keys = (0..<AttributeWriter.keyCount).map {
            Array("\(AttributeLedger.prefix)\(number)-\($0)".utf8)
        }
        durabilities =
            bucket.type == .persistent
            ? [.majority, .majorityAndPersistOnActive, .persistToMajority] : [.majority]
        let name = "\(AttributeLedger.prefix) \(bucket.name) \(number)"
        lane = environment.lanes.makeLane(name)
        dice = cluster.world.random(for: name)
        var settings = cluster.clientSettings
        settings.bucket = bucket.name
        makeClient = { [settings] lane in
            Client(
                settings,
                features: Handshake.attributes,
                environment: environment,
                lane: lane
            )
        }
    }

    var isIdle: Bool { work.isIdle }
    var tally: Tally { work.tally }

    func pick(_ count: Int) -> Int { Int(dice.next() % UInt64(count)) }

    /// A name of a write that is unique among those of the bucket.
    func newName(isDurable: Bool) -> String {
        writes += 1
        return "\(prefix).\(writes)" + (isDurable ? AttributeMark.durableSuffix : "")
    }

    // MARK: Start and end

    func start() {
        lane.post { [self] in open() }
    }

    func stop() { work.isOver = true }

    private func open() {
        guard !work.isOver else { return }
        let client = makeClient(lane)
        client.open { [self] result in
            if case .success = result {
                self.client = client
                schedule()
            } else {
                lane.post(after: AttributeWriter.second) { [self] in open() }
            }
        }
    }

    private func schedule() {
        guard !work.isOver, let client else { return }
        let pause = dice.next() % AttributeWriter.thinkNanoseconds
        lane.post(after: pause) { [self] in
            guard !work.isOver else { return }
            work.isIdle = false
            act(client, keys[pick(keys.count)])
        }
    }

    // MARK: Ends of operations

    /// Ends an operation, and schedules the next one.
    func ended(_ kind: String) {
        work.tally[.operation, kind] += 1
        work.isIdle = true
        schedule()
    }

    /// Handles the failure of an operation on a key.
    func failed(_ kind: String, _ key: [UInt8], error: ClientError) {
        if error.isAmbiguous { work.doubts.insert(key) }
        work.states[key] = .unknown
        work.tally[.check, "failedOperations"] += 1
        ended(kind)
    }

    /// Records what an acknowledged write has made.
    func wrote(_ key: [UInt8], _ known: Known, own: String? = nil) {
        work.states[key] = .known(known)
        let expectation = AttributeLedger.Expectation(
            isDeleted: known.isDeleted,
            names: known.names,
            own: own
        )
        verifier.expects(
            expectation,
            of: key,
            in: bucket,
            cas: known.cas,
            history: known.history
        )
    }
}
