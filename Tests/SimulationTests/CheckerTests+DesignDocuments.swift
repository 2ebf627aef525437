import Bytes
import Orchestration
import Simulation
import Testing
import Vocabulary

/// Checks of the design documents that the nodes agree on.
extension CheckerTests {
    /// A state with a bucket that has these design documents, which `apply` may refuse.
    private func state(
        designs: [(name: String, bytes: Int)],
        revision: UInt8
    ) throws -> ClusterState {
        var state = ClusterState(memoryQuota: 1_000 << 20)
        let node = NewNode(
            uuid: "u",
            host: "10.0.0.1",
            ports: NodePorts(admin: 1, data: 2, peer: 3),
            keys: .sample
        )
        let administrator = Administrator(name: "a", credentials: [1])
        var settings = BucketSettings(name: "b", uuid: "b", quota: 100 << 20)
        (settings.vBuckets, settings.replicas) = (1, 0)
        let rows: [NodeChain] = [[NodeNumber(1)]]
        let commands: [ClusterCommand] = [
            .addNode(node), .initialise(.init(uuid: "c", groupID: 7, administrator: administrator)),
            .createBucket(.init(settings: settings, options: BucketOptions(), rows: rows)),
        ]
        for command in commands { _ = state.apply(command, at: state.index + 1) }
        // The encoded state ends with the bucket's revision and documents, five empty fields, the
        // counters and the checksum.
        let events = ClusterCounters.Event.allCases.count
        let tail =
            [UInt8](repeating: 0, count: 5) + [UInt8(events)]
            + [UInt8](repeating: 0, count: events)
        let bytes = Array(state.encoded().dropLast(4))
        guard Array(bytes.suffix(2 + tail.count)) == [0, 0] + tail else {
            throw CheckerError(text: "the state ends otherwise")
        }
        let writer = ByteWriter()
        writer.append(Array(bytes.dropLast(2 + tail.count)))
        writer.append(revision)
        writer.append(UInt8(designs.count))
        for (name, bytes) in designs {
            writer.append(UInt8(name.utf8.count))
            writer.append(text: name)
            writer.append(1)
            LEB128.append(UInt64(bytes), to: writer)
            writer.append([UInt8](repeating: 0x20, count: bytes))
        }
        writer.append(tail)
        writer.append(bigEndian: CRC32.checksum(writer.view))
        guard case .state(let decoded) = ClusterState.decode(writer.bytes) else {
            throw CheckerError(text: "the state is not decoded")
        }
        return decoded
    }

    private struct CheckerError: Error { let text: String }

    /// The state that a log without the rule would commit.
    @Test func designDocumentsAboveTheirSumAreFound() throws {
        let documents = ["1", "2", "3", "4"].map { (name: $0, bytes: 1 << 20) }
        var bound = DesignBound()
        #expect(bound.check(try state(designs: [], revision: 0)) == nil)
        #expect(bound.check(try state(designs: Array(documents.prefix(3)), revision: 1)) == nil)
        let above = try state(designs: documents, revision: 2)
        let flaw =
            "index 3 has design documents of 4194564 bytes, and at most 4194304 are possible"
        #expect(bound.check(above) == flaw)
        // The same excess is reported once.
        #expect(bound.check(above) == nil)
    }

    @Test func designDocumentsChangedUnderOneRevisionAreFound() throws {
        var bound = DesignBound()
        #expect(bound.check(try state(designs: [("x", 2)], revision: 2)) == nil)
        #expect(bound.check(try state(designs: [("x", 2)], revision: 2)) == nil)
        let other = try state(designs: [("x", 3)], revision: 2)
        #expect(
            bound.check(other)
                == "index 3 has other design documents of b, but revision 2 after 2"
        )
    }
}
