import Bytes
import Orchestration
import Simulation
import Testing
import Vocabulary

/// The checkers of copies, histories and counts, each with input that it must find.
@Suite struct CheckerTests {
    private let first = VBucketUUID(1)
    private let second = VBucketUUID(2)

    private func copy(
        _ log: FailoverLog,
        covered: UInt64,
        _ documents: [(String, UInt64, String?)]
    ) -> CopyContent {
        var content = CopyContent(log: log, covered: Seqno(covered), documents: [:])
        for (key, seqno, value) in documents {
            content.documents[Array(key.utf8)] = CopyContent.Version(
                seqno: Seqno(seqno),
                cas: CAS(seqno),
                value: value.map { Array($0.utf8) },
                isDeleted: value == nil
            )
        }
        return content
    }

    private func log(_ branches: [(VBucketUUID, UInt64, UInt64)]) -> FailoverLog {
        var log = FailoverLog(first: branches[0].0, fence: branches[0].2)
        for (uuid, seqno, fence) in branches.dropFirst() {
            log.begin(uuid, at: Seqno(seqno), fence: fence)
        }
        return log
    }

    // MARK: Promises

    /// With two disks that both have each write: which events end the promise.
    @Test func durabilityEndsAfterFailoverOfMajorityOfDisksAndProcessEnd() {
        func isBeyond(_ course: [(failovers: Int, ends: Int, high: UInt64, disk: UInt64)]) -> Bool {
            var exposure = DiskExposure()
            for now in course {
                exposure.update(failovers: now.failovers, ends: now.ends, majority: 2) {
                    ["copy": .init(high: Seqno(now.high), persisted: Seqno(now.disk))]
                }
            }
            return exposure.isBeyond
        }
        // Any number of process ends, of failovers alone, or one failover and process ends.
        #expect(!isBeyond([(0, 1, 9, 9), (0, 9, 9, 0), (0, 20, 9, 0)]))
        #expect(!isBeyond([(1, 0, 9, 0), (2, 0, 9, 0), (8, 0, 9, 0)]))
        #expect(!isBeyond([(1, 0, 9, 0), (1, 1, 9, 0), (1, 9, 9, 0)]))
        // Two disks are discarded and then a process ends, at once or much later.
        #expect(isBeyond([(1, 0, 9, 0), (2, 0, 9, 0), (2, 1, 9, 0)]))
        #expect(isBeyond([(2, 1, 9, 0)]))
        #expect(isBeyond([(2, 0, 9, 0), (2, 0, 9, 0), (2, 0, 12, 8), (2, 1, 12, 8)]))
        // Everything has reached the disks of the current copies before.
        #expect(!isBeyond([(2, 0, 9, 0), (2, 0, 9, 0), (2, 0, 12, 9), (2, 1, 12, 9)]))
        #expect(!isBeyond([(1, 0, 9, 0), (1, 0, 9, 0), (1, 0, 9, 9), (2, 0, 9, 0), (2, 1, 9, 0)]))
    }

    @Test func discardedDiskCountsAsLostUntilReplicationIsComplete() {
        var exposure = DiskExposure()
        exposure.update(failovers: 2, ends: 0, majority: 2) { nil }
        for _ in 0..<3 { exposure.update(failovers: 2, ends: 0, majority: 2) { nil } }
        exposure.update(failovers: 2, ends: 1, majority: 2) { nil }
        #expect(exposure.isBeyond)
    }

    @Test func nodeCountsAsLostOnceUntilReplicationIsComplete() {
        var exposure = Exposure()
        exposure.update(events: ["a": 1]) { false }
        // Crashed, failed over, crashed again.
        exposure.update(events: ["a": 3]) { false }
        #expect(exposure.losses == 1 && exposure.worst == 1)
        exposure.update(events: ["a": 3, "b": 1]) { true }
        #expect(exposure.losses == 2 && exposure.worst == 2)
        exposure.update(events: ["a": 3, "b": 1]) { false }
        #expect(exposure.losses == 2)
        exposure.update(events: ["a": 3, "b": 1]) { true }
        #expect(exposure.losses == 0 && exposure.worst == 2)
        exposure.update(events: ["a": 4, "b": 1]) { true }
        #expect(exposure.losses == 1 && exposure.worst == 2)
    }

    // MARK: Common history

    @Test func copiesWithDifferentProgressAgree() {
        let ahead = copy(log([(first, 0, 1)]), covered: 9, [("a", 9, "new"), ("b", 2, "b")])
        let behind = copy(log([(first, 0, 1)]), covered: 3, [("a", 3, "old"), ("b", 2, "b")])
        #expect(CommonHistory.end(ahead, behind) == Seqno(3))
        #expect(CommonHistory.flaw(ahead, behind) == nil)
    }

    @Test func gapBelowTheCoveredSeqnoIsFound() {
        let one = copy(log([(first, 0, 1)]), covered: 5, [("a", 1, "a"), ("b", 4, "b")])
        let other = copy(log([(first, 0, 1)]), covered: 5, [("a", 1, "a")])
        #expect(CommonHistory.flaw(one, other)?.contains("b is 4 b") == true)
        #expect(CommonHistory.flaw(other, one) != nil)
    }

    @Test func differentValueAtTheSameSeqnoIsFound() {
        let one = copy(log([(first, 0, 1)]), covered: 5, [("a", 4, "this")])
        let other = copy(log([(first, 0, 1)]), covered: 5, [("a", 4, "that")])
        #expect(CommonHistory.flaw(one, other) != nil)
        let removed = copy(log([(first, 0, 1)]), covered: 5, [("a", 4, nil)])
        #expect(CommonHistory.flaw(one, removed) != nil)
    }

    /// Changes after the end of the common history are not compared.
    @Test func divergedHistoriesAreComparedUpToTheirCommonEnd() {
        let old = copy(log([(first, 0, 1)]), covered: 9, [("a", 3, "a"), ("b", 8, "lost")])
        let new = copy(
            log([(first, 0, 1), (second, 6, 20)]),
            covered: 12,
            [("a", 3, "a"), ("b", 7, "other")]
        )
        #expect(CommonHistory.end(old, new) == Seqno(6))
        #expect(CommonHistory.flaw(old, new) == nil)
        // As in a branch that begins at the high seqno: it claims changes that the new copy never
        // had.
        let lying = copy(
            log([(first, 0, 1), (second, 8, 20)]),
            covered: 12,
            [("a", 3, "a"), ("b", 7, "other")]
        )
        #expect(CommonHistory.flaw(old, lying) != nil)
    }

    @Test func copiesWithoutACommonHistoryAreNotCompared() {
        let one = copy(log([(first, 0, 1)]), covered: 5, [("a", 4, "this")])
        let other = copy(log([(second, 0, 2)]), covered: 5, [("a", 4, "that")])
        #expect(CommonHistory.end(one, other) == nil)
        #expect(CommonHistory.flaw(one, other) == nil)
    }

    @Test func failoverLogWithDecreasingFencesIsFound() {
        #expect(CommonHistory.flaw(log([(first, 0, 1), (second, 4, 9)])) == nil)
        #expect(CommonHistory.flaw(log([(first, 0, 9), (second, 4, 1)])) != nil)
    }

    // MARK: Acknowledged writes

    private func findings(
        _ writes: [(String, String?, VBucketUUID, UInt64)],
        in copy: CopyContent,
        _ losses: AcknowledgedWrites.Losses
    ) -> AcknowledgedWrites.Findings {
        var all = AcknowledgedWrites()
        for (key, value, uuid, seqno) in writes {
            all.add(
                AcknowledgedWrites.Write(
                    key: Array(key.utf8),
                    value: value.map { Array($0.utf8) },
                    uuid: uuid,
                    seqno: Seqno(seqno)
                )
            )
        }
        return all.findings(in: copy, losses)
    }

    @Test func writeOfTheFinalHistoryIsFoundOrOverwritten() {
        let copy = copy(log([(first, 0, 1)]), covered: 9, [("a", 5, "a2"), ("b", 9, nil)])
        let good = findings(
            [("a", "a1", first, 3), ("a", "a2", first, 5), ("b", nil, first, 9)],
            in: copy,
            .none
        )
        #expect(good.flaws == [])
        #expect(good.found == 3)
        #expect(findings([("a", "a3", first, 8)], in: copy, .byPromotion).flaws.count == 1)
        #expect(findings([("a", "other", first, 5)], in: copy, .byPromotion).flaws.count == 1)
        #expect(findings([("c", "c", first, 2)], in: copy, .byPromotion).flaws.count == 1)
    }

    @Test func promotionExplainsOnlyWritesAfterItsSeqno() {
        let promoted = copy(
            log([(first, 0, 1), (second, 4, 20)]),
            covered: 6,
            [("a", 3, "a")]
        )
        let cutOff = findings([("a", "x", first, 5)], in: promoted, .byPromotion)
        #expect(cutOff.lost == 1)
        #expect(cutOff.flaws == [])
        // Without any loss of a node, a lost write is a violation.
        #expect(findings([("a", "x", first, 5)], in: promoted, .none).flaws.count == 1)
        // No write of the current history may be missing, whatever was promoted before.
        #expect(findings([("a", "x", second, 7)], in: promoted, .byPromotion).flaws.count == 1)
        // A history that is in no log, without a promotion.
        let quiet = copy(log([(second, 0, 2)]), covered: 6, [])
        #expect(findings([("a", "x", first, 5)], in: quiet, .byPromotion).flaws.count == 1)
        #expect(findings([("a", "x", first, 5)], in: quiet, .ofEverything).flaws == [])
        // A recreated vBucket keeps its later writes.
        #expect(findings([("a", "x", second, 7)], in: quiet, .ofEverything).flaws.count == 1)
    }

    /// A bucket with the name of a deleted bucket has none of its documents.
    @Test func recreatedVBucketIsRecorded() {
        func name(_ vBucket: Int) -> String { Changes.name("b", vBucket) }
        var (state, changes, index) = (ClusterState(memoryQuota: 1 << 30), Changes(), UInt64(0))
        func apply(_ commands: ClusterCommand...) {
            for command in commands {
                index += 1
                guard case .applied = state.apply(command, at: index) else {
                    Issue.record("\(command)")
                    continue
                }
            }
            changes.record(state)
        }
        func bucket(_ uuid: String) -> ClusterCommand {
            var settings = BucketSettings(name: "b", uuid: uuid, quota: 100 << 20)
            (settings.vBuckets, settings.replicas) = (2, 0)
            settings.flushEnabled = true
            let rows = [NodeChain](repeating: [NodeNumber(1)], count: 2)
            return .createBucket(.init(settings: settings, options: BucketOptions(), rows: rows))
        }
        func step(_ uuid: String, _ phase: BucketStep.Phase) -> BucketStep {
            BucketStep(name: "b", uuid: uuid, phase: phase)
        }
        let ports = NodePorts(admin: 1, data: 2, peer: 3)
        let administrator = Administrator(name: "a", credentials: [1])
        apply(
            .addNode(NewNode(uuid: "u", host: "10.0.0.1", ports: ports, keys: .sample)),
            .initialise(.init(uuid: "c", groupID: 7, administrator: administrator)),
            bucket("one")
        )
        #expect(changes.remade.isEmpty)
        apply(.setName("home"))
        #expect(changes.remade.isEmpty)
        // Whether or not an intermediate state was recorded.
        var unseen = changes
        apply(.deleteBucket(step("one", .begin)))
        #expect(changes.remade == [name(0), name(1)])
        apply(.deleteBucket(step("one", .end)), bucket("two"))
        #expect(changes.remade == [name(0), name(1)])
        unseen.record(state)
        #expect(unseen.remade == [name(0), name(1)])
        #expect(changes.tally[.change, "flush"] == 0)
        apply(.flushBucket(step("two", .begin)))
        #expect(changes.tally[.change, "flush"] == 1)
    }

    // MARK: Levels

    /// As a log without the rule would have it: the level is raised while a node announces less.
    @Test func levelAboveWhatAProcessAnnouncesIsFound() {
        var (state, bound) = (ClusterState(memoryQuota: 1_000 << 20), LevelBound())
        var node = NewNode(
            uuid: "u",
            host: "10.0.0.1",
            ports: NodePorts(admin: 1, data: 2, peer: 3),
            keys: .sample
        )
        #expect(bound.check(state, announced: [:]) == nil)
        _ = state.apply(.addNode(node), at: 1)
        var address = NodeAddress(number: NodeNumber(1), host: node.host, ports: node.ports)
        address.level = FeatureLevel(2)
        _ = state.apply(.setNode(address), at: 2)
        #expect(bound.check(state, announced: [node.host: FeatureLevel(1)]) == nil)
        _ = state.apply(.raiseFeatureLevel(FeatureLevel(2)), at: 3)
        #expect(bound.check(state, announced: [node.host: FeatureLevel(2)]) == nil)
        #expect(bound.raises == 1)
        let flaw = "index 3 has level 2, and 10.0.0.1 announces 1"
        #expect(bound.check(state, announced: [node.host: FeatureLevel(1)]) == flaw)
        // A newer state of a lower level.
        var other = ClusterState(memoryQuota: 1_000 << 20)
        node.host = "10.0.0.2"
        _ = other.apply(.addNode(node), at: 4)
        #expect(bound.check(other, announced: [:]) == "index 4 has level 1 after 2")
    }

    // MARK: Quotas

    /// The states that a log without the rule would commit: two buckets of 600 MB above quotas of 1 000
    /// and 500 MB.
    @Test func stateAboveTheMemoryQuotaIsFound() throws {
        var (state, bound) = (ClusterState(memoryQuota: 1_200 << 20), QuotaBound())
        let ports = NodePorts(admin: 1, data: 2, peer: 3)
        let administrator = Administrator(name: "a", credentials: [1])
        let buckets = ["one", "two"].map { name -> ClusterCommand in
            var settings = BucketSettings(name: name, uuid: name, quota: 600 << 20)
            (settings.vBuckets, settings.replicas) = (1, 0)
            let rows: [NodeChain] = [[NodeNumber(1)]]
            return .createBucket(.init(settings: settings, options: BucketOptions(), rows: rows))
        }
        let commands: [ClusterCommand] =
            [
                .addNode(NewNode(uuid: "u", host: "10.0.0.1", ports: ports, keys: .sample)),
                .initialise(.init(uuid: "c", groupID: 7, administrator: administrator)),
            ] + buckets
        for command in commands {
            _ = state.apply(command, at: state.index + 1)
            #expect(bound.check(state) == nil)
        }
        #expect(state.buckets.count == 2)
        // The same excess is not reported again; a larger one is.
        for (quota, isFound) in [(1_000, true), (1_000, false), (500, true)] as [(UInt64, Bool)] {
            let exceeded = try #require(Self.state(state, withMemoryQuota: quota << 20))
            #expect((bound.check(exceeded) != nil) == isFound)
        }
    }

    /// The state with another memory quota in its encoding, whatever the rules say.
    private static func state(_ state: ClusterState, withMemoryQuota quota: UInt64) -> ClusterState?
    {
        func digits(_ number: UInt64) -> [UInt8] {
            let writer = ByteWriter()
            LEB128.append(number, to: writer)
            return writer.bytes
        }
        let (bytes, before) = (Array(state.encoded().dropLast(4)), digits(state.memoryQuota))
        let place = bytes.indices.first { bytes[$0...].starts(with: before) }
        guard let place else { return nil }
        let writer = ByteWriter()
        writer.append(Array(bytes[..<place]) + digits(quota) + bytes[(place + before.count)...])
        writer.append(bigEndian: CRC32.checksum(writer.view))
        guard case .state(let other) = ClusterState.decode(writer.bytes) else { return nil }
        return other
    }

    // MARK: Counting

    @Test func tallyIsParsedFromItsLine() {
        var tally = Tally()
        tally[.operation, "set"] = 12
        tally[.check, "linearizedKeys"] += 3
        let line = tally.line.replacing("linearizedKeys", with: "keys_linearized")
        #expect(line.split(separator: " ").count == 2)
        #expect(Tally(line: tally.line) == tally)
        #expect(Tally(line: "fault.crash=x") == nil)
        #expect(Tally(line: "weather.rain=3") == nil)
    }

    /// A swarm without counts is below every floor, and a swarm that lacks one kind is below that
    /// kind's floor.
    @Test func tallyWithoutAKindIsBelowThatFloor() {
        #expect(MinimumCounts.shortfalls(Tally(), seeds: 100).count == MinimumCounts.table.count)
        for missing in MinimumCounts.table {
            var tally = Tally()
            for floor in MinimumCounts.table where floor != missing {
                tally[floor.name.group, floor.name.kind] = floor.count
            }
            let shortfalls = MinimumCounts.shortfalls(tally, seeds: 100)
            #expect(shortfalls.map(\.floor) == [missing])
        }
        #expect(Set(MinimumCounts.table.map(\.name)).count == MinimumCounts.table.count)
    }

    @Test func floorsScaleWithTheNumberOfSeeds() {
        var tally = Tally()
        for floor in MinimumCounts.table { tally[floor.name.group, floor.name.kind] = floor.count }
        #expect(MinimumCounts.shortfalls(tally, seeds: 100).isEmpty)
        #expect(MinimumCounts.shortfalls(tally, seeds: 50).isEmpty)
        #expect(MinimumCounts.shortfalls(Tally(), seeds: 49).isEmpty)
        #expect(MinimumCounts.shortfalls(tally, seeds: 300).count == MinimumCounts.table.count)
    }
}

extension NodeKeys {
    /// Keys of a node that connects to no other.
    static var sample: NodeKeys {
        let key = [UInt8](repeating: 1, count: keyByteCount)
        guard let keys = NodeKeys(identity: key, sealing: key) else {
            preconditionFailure("the keys have the right length")
        }
        return keys
    }
}
