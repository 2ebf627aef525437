import Bytes
import Orchestration
import Testing
import Vocabulary

/// The memory that a machine can provide to buckets.
@Suite struct MemoryQuotaTests {
    private static let gib: UInt64 = 1 << 30

    @Test(
        arguments: [
            (4_096, 3_276), (8_192, 7_168), (24_105, 23_081), (1_024, 816), (0, 256), (300, 256),
        ] as [(UInt64, UInt64)]
    )
    func machineReservesAGigabyteOrAFifth(_ total: UInt64, _ most: UInt64) {
        let memory = total << 20
        #expect(MemoryQuota.megabytesMax(memoryTotal: memory) == most)
        #expect(MemoryQuota.flaw(megabytes: most, memoryTotal: memory) == nil)
        #expect(
            MemoryQuota.flaw(megabytes: most + 1, memoryTotal: memory)
                == .tooLarge(most: most, total: total)
        )
        #expect(MemoryQuota.flaw(megabytes: 256, memoryTotal: memory) == nil)
        #expect(MemoryQuota.flaw(megabytes: 255, memoryTotal: memory) == .tooSmall(least: 256))
        for megabytes in [99_999_999_999, .max] as [UInt64] {
            #expect(MemoryQuota.flaw(megabytes: megabytes, memoryTotal: memory) != nil)
        }
    }

    @Test(arguments: [1, 2, 3, 4, 16, 512] as [UInt64])
    func defaultQuotaPassesTheRule(_ gigabytes: UInt64) {
        let memory = gigabytes * Self.gib
        let quota = MemoryQuota.bytesDefault(memoryTotal: memory)
        #expect(MemoryQuota.flaw(megabytes: quota >> 20, memoryTotal: memory) == nil)
        if gigabytes >= 4 { #expect(quota == memory / 2) }
    }

    /// Node 2 has 2 GB, of which it can provide 1 636 MB.
    private func cluster() -> ClusterWorld {
        var world = ClusterWorld(nodes: 1)
        var small = ClusterWorld.node(2)
        small.memoryTotal = 2 * Self.gib
        world.apply(.addNode(small))
        return world
    }

    @Test func memoryQuotaThatAnotherNodeCannotProvideIsRefused() throws {
        var world = cluster()
        let raised = ClusterCommand.setMemoryQuota(1_637 << 20)
        #expect(world.apply(raised) == .refused(.nodeTooSmall))
        #expect(world.state.memoryQuota == 1_000 << 20)
        #expect(world.apply(.setMemoryQuota(1_636 << 20)) == .applied([.settingsChanged]))
        var form = ClusterForm(FormParameters([("memoryQuota", "1637")]), state: world.state)
        form.validateQuotas(memoryTotal: 16 * Self.gib)
        let node = try #require(world.state.node(number: n(2)))
        let text =
            "The total quota (1637MB) is more than node \(node.host):\(node.ports.admin) can give: at "
            + "most 1636MB of its 2048MB"
        #expect(form.errors == [FieldError("_", text)])
    }

    /// The quota is raised while the node is queried for its identity.
    @Test func nodeThatCannotProvideTheMemoryQuotaIsRefused() {
        var world = ClusterWorld(nodes: 1)
        world.apply(.setMemoryQuota(2_000 << 20))
        var small = ClusterWorld.node(2)
        small.memoryTotal = 2 * Self.gib
        #expect(world.apply(.addNode(small)) == .refused(.nodeTooSmall))
        small.memoryTotal = 4 * Self.gib
        #expect(world.apply(.addNode(small)) == .applied([.nodeAdded(n(2)), .nodesChanged]))
    }

    /// A node whose machine has less memory than before stays a member and serves its data.
    @Test func memoryReportedAfterARestartIsStored() throws {
        var world = cluster()
        let node = try #require(world.state.node(number: n(2)))
        let rev = world.state.rev
        var address = NodeAddress(number: n(2), host: node.host, ports: node.ports)
        address.memoryTotal = Self.gib
        #expect(world.apply(.setNode(address)) == .applied([]))
        #expect(world.state.node(number: n(2))?.memoryTotal == Self.gib)
        // Clients do not see the change.
        #expect(world.state.rev == rev)
        guard case .state(let decoded) = ClusterState.decode(world.state.encoded()) else {
            Issue.record("not decoded")
            return
        }
        #expect(decoded == world.state)
    }

    @Test func memoryInCommandsSurvivesItsEncoding() {
        var node = ClusterWorld.node(2)
        var address = NodeAddress(number: n(1), host: "h", ports: node.ports)
        for total in [1, Self.gib, .max] {
            node.memoryTotal = total
            address.memoryTotal = total
            for command in [ClusterCommand.addNode(node), .setNode(address)] {
                let envelope = ClusterEnvelope(proposer: n(1), boot: 1, number: 1, command: command)
                #expect((try? ClusterEnvelope(decoding: envelope.encoded)) == envelope)
            }
        }
    }
}
