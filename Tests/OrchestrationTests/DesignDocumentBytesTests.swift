import Orchestration
import Testing
import Vocabulary

/// The bytes of design documents, settings of indexes and view ports in logs and states, as the first release with them
/// wrote them.
@Suite struct DesignDocumentBytesTests {
    private static let head = "02 01 0000000000000001 01"
    private static let place = "06 622d75756964 01 78"

    private static func bytes(_ hex: String) -> [UInt8] {
        let digits = hex.filter { $0 != " " && $0 != "\n" }.map { UInt8($0.hexDigitValue ?? 0) }
        return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }

    private func envelope(_ command: ClusterCommand) -> ClusterEnvelope {
        ClusterEnvelope(proposer: n(1), boot: 1, number: 1, command: command)
    }

    @Test func recordedCommandsAreReadAndWritten() {
        let body = Array("{}".utf8)
        let was = DesignRevision(number: 3, digest: 0x9bdf_8353)
        var indexing = IndexingSettings()
        (indexing.updateMinChanges, indexing.parallelIndexersMax) = (7, 2)
        (indexing.fragmentationPercent, indexing.fragmentationBytes) = (nil, 300)
        let recordings: [(command: ClusterCommand, hex: String)] = [
            (
                .putDesignDocument(.init(bucket: "b-uuid", name: "x", body: body)),
                "\(Self.head) 24 \(Self.place) 02 7b7d 00"
            ),
            (
                .putDesignDocument(.init(bucket: "b-uuid", name: "x", body: body, was: was)),
                "\(Self.head) 24 \(Self.place) 02 7b7d 01 03 9bdf8353"
            ),
            (
                .deleteDesignDocument(.init(bucket: "b-uuid", name: "x")),
                "\(Self.head) 25 \(Self.place)"
            ),
            (.setViewsPort(.init(number: n(3), port: 8_092)), "\(Self.head) 16 03 1f9c"),
            (.setViewsPort(.init(number: n(300), port: 0)), "\(Self.head) 16 ac02 0000"),
            (
                .setIndexing(IndexingChange(indexing, was: IndexingSettings())),
                "\(Self.head) 09 8827 07 8827 02 00 ac02 8827 8827 8827 04 1e 00"
            ),
        ]
        for (command, hex) in recordings {
            let envelope = envelope(command)
            #expect(envelope.encoded() == Self.bytes(hex))
            #expect(ClusterEnvelope.decode(Self.bytes(hex)) == envelope)
        }
    }

    /// One node of level 2 with bucket `b`: schema 7.
    private static let schemaSeven =
        """
        444956414e434c550007050102000000000000000702636300010d41646d696e6973747261746f72
        03010203808080f4031e48e80701050100780400020101027531093132372e302e302e3123322333
        0000000023340747726f7570203101026b76020000010747726f75702031013001016206622d7575
        6964076d656d626173650976616c75654f6e6c798080803200010001000770617373697665050000
        0100100a00010100000000000b00000000000000000000000000ac0201000100000201000294ebc1
        8a
        """

    /// The same at level 3, with documents `dev_x` and `x`, and port 8092 for views: schema 8.
    private static let schemaEight =
        """
        444956414e434c550008090109000000000000000702636300010d41646d696e6973747261746f72
        03010203808080f4031e48e80701050100780400020101027531093132372e302e302e3123322333
        0000000023340747726f7570203101026b76020000010747726f75702031013001016206622d7575
        6964076d656d626173650976616c75654f6e6c798080803200010001000770617373697665090000
        0100100a00010100000000000b00000000000000000000000000ac02010001000003010003080205
        6465765f7801027b7d0178020c7b227669657773223a7b7d7d1f9c882788278827041e00a9cb761c
        """

    private static func world(level: FeatureLevel) -> ClusterWorld {
        var world = ClusterWorld.withDesigns(level: level)
        guard level >= .designDocuments else { return world }
        for (name, text) in [("x", "{}"), ("dev_x", "{}"), ("x", #"{"views":{}}"#)] {
            let body = Array(text.utf8)
            world.apply(.putDesignDocument(.init(bucket: "b-uuid", name: name, body: body)))
        }
        world.apply(.setViewsPort(.init(number: n(1), port: 8_092)))
        return world
    }

    @Test func recordedStatesAreReadAndWritten() throws {
        let recordings = [
            (FeatureLevel(2), Self.schemaSeven), (.designDocuments, Self.schemaEight),
        ]
        for (level, hex) in recordings {
            let state = Self.world(level: level).state
            let encoded = state.encoded()
            let digits = encoded.map { String($0, radix: 16) }.map { $0.count < 2 ? "0" + $0 : $0 }
            #expect(encoded == Self.bytes(hex), Comment(rawValue: digits.joined()))
            guard case .state(let decoded) = ClusterState.decode(Self.bytes(hex)) else {
                Issue.record("not decoded")
                continue
            }
            #expect(decoded == state)
        }
    }

    /// A state of schema 7 continues with design documents once the level permits them.
    @Test func stateOfSchemaSevenGetsDesignDocumentsLater() throws {
        guard case .state(let state) = ClusterState.decode(Self.bytes(Self.schemaSeven)) else {
            Issue.record("not decoded")
            return
        }
        #expect(state.bucket(named: "b")?.designDocuments == [])
        var world = ClusterWorld()
        (world.state, world.index) = (state, state.index)
        world.raise(to: .designDocuments)
        let body = Array("{}".utf8)
        world.apply(.putDesignDocument(.init(bucket: "b-uuid", name: "x", body: body)))
        #expect(world.state.bucket(named: "b")?.designRevision == world.index)
    }
}
