import Bytes
import Syncing
import Testing

@Suite struct ChannelLogTests {
    /// `FeedWalkTests` compares the rows with whole histories; here, holes are many.
    @Test func rowsStayInOrderWhenHolesAreRemoved() {
        var random = SeededRandom(seed: 7)
        var log = ChannelLog()
        var newest: [String: UInt64] = [:]
        for _ in 1...5_000 {
            let id = "d\(random.next() % 40)"
            if random.next() % 20 == 0 {
                log.purge([UInt8](id.utf8))
                newest[id] = nil
            } else {
                newest[id] = log.write(id, "x")
            }
        }
        for name in [channel("x"), .all] {
            let rows = log.rows(of: name, after: 0, atMost: .max)
            #expect(rows.map(\.sequence) == newest.values.sorted())
            let after = rows[rows.count / 2].sequence
            #expect(
                log.rows(of: name, after: after, atMost: 3).map(\.sequence)
                    == Array(newest.values.sorted().filter { $0 > after }.prefix(3))
            )
        }
        let ids = newest.keys.map { [UInt8]($0.utf8) }
        #expect(log.ids.ids() == ids.sorted { $0.lexicographicallyPrecedes($1) })
    }

    @Test func rowHasTheSequenceOfFirstEntryIntoTheChannel() throws {
        var log = ChannelLog()
        log.write("a", "x")
        log.write("a", "x y")
        log.write("a", "y")
        let left = try #require(log.rows(of: channel("x"), after: 0, atMost: 9).first)
        #expect(left.entered == 1 && left.sequence == 3 && left.isRemoval)
        log.write("a", "x")
        let back = try #require(log.rows(of: channel("x"), after: 0, atMost: 9).first)
        #expect(back.entered == 1 && !back.isRemoval)
        #expect(
            Set(log.memberships(of: back).map(\.channel)) == [channel("x"), channel("y"), .all]
        )
    }

    @Test func changeNamesTheChannelsWithNewRows() {
        var log = ChannelLog()
        func record(_ sequence: UInt64, _ names: String) -> Set<ChannelName> {
            let row = LogRow(sequence, [1], revision: revision(sequence), entered: 0)
            return Set(log.record(row, in: channels(names)))
        }
        #expect(record(1, "a b") == channels("a b"))
        #expect(record(2, "b c") == channels("a b c"))
        #expect(record(3, "b *") == channels("b c"))
        #expect(record(9, "") == channels("b"))
    }

    @Test func principalsAreNotAmongTheIDs() {
        var log = ChannelLog()
        log.write(principal: "_user/jane", at: 1)
        log.write("a", "")
        #expect(log.ids.ids() == [[UInt8]("a".utf8)])
        #expect(log.newest([UInt8]("b".utf8)) == nil)
    }

    @Test func idsAreInOrderOfTheirBytes() {
        var random = SeededRandom(seed: 3)
        var ids = OrderedIDs()
        var expected: Set<[UInt8]> = []
        for _ in 1...4_000 {
            let id = (0...Int(random.next() % 3)).map { _ in
                UInt8(truncatingIfNeeded: random.next())
            }
            if random.next() % 3 == 0 {
                ids.remove(id)
                expected.remove(id)
            } else {
                ids.insert(id)
                expected.insert(id)
            }
        }
        let sorted = expected.sorted { $0.lexicographicallyPrecedes($1) }
        #expect(ids.ids() == sorted)
        #expect(ids.count == sorted.count)
        let first: [UInt8] = [100]
        #expect(
            ids.ids(from: first, atMost: 700)
                == Array(sorted.filter { !$0.lexicographicallyPrecedes(first) }.prefix(700))
        )
        for id in sorted { ids.remove(id) }
        #expect(ids.ids() == [])
    }
}
