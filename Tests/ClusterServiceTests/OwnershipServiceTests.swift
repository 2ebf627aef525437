import Bytes
import ClusterService
import Orchestration
import Seams
import Testing
import Vocabulary

/// The leader's calls about copies, as a node answers them.
@Suite struct OwnershipServiceTests {
    /// Numbers of the calls on the wire.
    private enum Kind: UInt16, CaseIterable {
        case reports = 7
        case seal = 8
        case activate = 9
        case handOver = 10
    }

    /// The bucket of a lone node.
    private func bucket() async throws -> BucketRecord {
        let node = try World().service(RecordingPlane())
        node.applier.openBuckets()
        try await node.start(host: "127.0.0.1", ports: NodePorts(admin: 8_091, data: 11_210))
        let form = FormParameters([
            ("port", "SAME"), ("username", "Administrator"), ("password", "password"),
        ])
        _ = await Result(of: try await node.settings.initialise(form))
        _ = await Result(
            of: try await node.buckets.create(
                FormParameters([("name", "b"), ("ramQuotaMB", "100")])
            )
        )
        defer { node.stop() }
        return try #require(node.state.bucket(named: "b"))
    }

    /// A call about one vBucket, in the encoding of `LeaderCall`.
    private func word(_ kind: Kind, _ uuid: String, _ vBucket: Int) -> [UInt8] {
        let writer = ByteWriter()
        // Term, index, bucket, and one subject: a vBucket with its fence.
        for number in [1, 1, UInt64(uuid.utf8.count)] { LEB128.append(number, to: writer) }
        writer.append(Array(uuid.utf8))
        let subject = ByteWriter()
        for number in [UInt64(vBucket), 1] { LEB128.append(number, to: subject) }
        // No position is required of it.
        if kind == .activate { subject.append(UInt8(0)) }
        for number in [1, UInt64(subject.count)] { LEB128.append(number, to: writer) }
        writer.append(subject.bytes)
        return writer.bytes
    }

    /// Every answer begins with the reason of a refusal.
    private func refusal(_ answer: [UInt8]) -> String? {
        answer.withUnsafeBytes { buffer in
            var reader = ByteReader(ByteView(buffer))
            let count = reader.leb128().flatMap { Int(exactly: $0) }
            return count.flatMap { reader.bytes($0) }.map {
                String(decoding: $0.bytes, as: UTF8.self)
            }
        }
    }

    @Test(arguments: Kind.allCases)
    private func callsForUnknownVBucketsAreRefused(_ kind: Kind) async throws {
        let bucket = try await bucket()
        let (uuid, count) = (bucket.settings.uuid, bucket.placements.count)
        let nodes = try await PeerNode.cluster(2)
        defer { for node in nodes { node.stop() } }
        let lane = nodes[0].lane
        let plane = RecordingPlane()
        plane.record.withLock { $0.status[bucket.settings.name] = .ready }
        let service = OwnershipService(
            calls: nodes[0].calls,
            dataPlane: plane,
            lane: lane,
            sources: OwnershipService.Sources(
                applied: { 1 },
                bucket: { $0 == uuid ? bucket : nil },
                keep: { _, done in done(.success(())) }
            )
        )
        lane.post { service.start() }
        func ask(_ vBucket: Int) async throws -> String? {
            let words = word(kind, uuid, vBucket)
            return refusal(try await nodes[1].call(kind.rawValue, words, to: nodes[0]).get())
        }
        #expect(try await ask(count - 1)?.isEmpty == true)
        for nonsense in [count, Int(UInt16.max)] {
            let isOfNoBucket = nonsense >= Limits.vBucketsDefault
            let reason = isOfNoBucket ? "invalid call" : "the bucket has \(count) vBuckets"
            #expect(try await ask(nonsense) == reason)
        }
        #expect(try await ask(0)?.isEmpty == true)
        // If files could not be opened, their content is unknown.
        plane.record.withLock { $0.status = [:] }
        if kind == .reports { #expect(try await ask(0) == "the bucket is not open") }
    }
}
