import SyncWire
import Syncing
import Testing

/// Feeds of random histories: against their definition, cut at every row, and followed by devices.
@Suite struct FeedWalkTests {
    /// With the last two, devices kept documents of lost channels.
    private static let seeds = Array(1...12 as ClosedRange<UInt64>) + [857, 2_211]

    @Test func feedsHaveTheRowsOfTheirDefinition() {
        for seed in Self.seeds {
            var world = FeedWorld(seed: seed, dialect: .first)
            for step in 1_000...2_600 {
                world.step()
                guard step % 6 == 0 else { continue }
                let page = world.log.page(world.scope)
                let rows = page.text.split(separator: ", ").map(String.init)
                    .filter { FeedWorld.documents.contains(String($0.split(separator: " ")[1])) }
                #expect(rows == world.expectedRows(), "seed \(seed), step \(step)")
                let positions = page.rows.map(\.position)
                #expect(positions == positions.sorted(), "seed \(seed), step \(step)")
                #expect(Set(positions).count == positions.count, "seed \(seed), step \(step)")
            }
        }
    }

    @Test(arguments: [GatewayDialect.first, .third])
    func feedCutAtAnyRowContinuesBehindIt(dialect: GatewayDialect) {
        for seed in Self.seeds {
            var world = FeedWorld(seed: seed, dialect: dialect)
            for _ in 1...50 { world.step() }
            // With revocations, from a position of a device that has something.
            for since in [SequenceToken.zero, SequenceToken(world.log.newest / 2)] {
                var request = FeedRequest(since: since, through: world.log.newest)
                request.sendsRevocations = since > .zero
                let whole = world.log.page(world.scope, request)
                for (index, row) in whole.rows.enumerated() {
                    request.since = row.position
                    let rest = world.log.page(world.scope, request)
                    #expect(rest.rows == Array(whole.rows[(index + 1)...]), "seed \(seed)")
                    request.since = since
                    request.limit = index + 1
                    let first = world.log.page(world.scope, request)
                    #expect(first.rows == Array(whole.rows[...index]), "seed \(seed)")
                    #expect(first.last == row.position, "seed \(seed)")
                    request.limit = nil
                }
            }
        }
    }

    @Test(arguments: [GatewayDialect.first, .third])
    func deviceHasExactlyWhatItsUserMaySee(dialect: GatewayDialect) {
        for seed in Self.seeds {
            var world = FeedWorld(seed: seed, dialect: dialect, onlyGrants: dialect == .first)
            var device = FeedDevice()
            for _ in 1...120 {
                world.step()
                if world.number(below: 4) == 0 {
                    let limit = world.number(below: 4)
                    device.pull(world, limit: limit == 0 ? nil : limit)
                }
            }
            device.pull(world, limit: nil)
            #expect(device.documents == world.visible, "seed \(seed)")
        }
    }

    @Test func deviceReceivesNoVersionTwiceWhileGrantsGrow() {
        for seed in Self.seeds {
            var world = FeedWorld(seed: seed, dialect: .third, onlyGrants: true)
            var device = FeedDevice()
            for _ in 1...120 {
                world.step()
                let limit = world.number(below: 5)
                device.pull(world, limit: limit == 0 ? nil : limit)
            }
            device.pull(world, limit: nil)
            // A document that left a channel may come back as the same version in another one.
            let counts = Dictionary(device.received.map { ($0, 1) }, uniquingKeysWith: +)
            #expect(counts.values.allSatisfy { $0 <= 2 }, "seed \(seed)")
            device.received = []
            device.pull(world, limit: nil)
            #expect(device.received.isEmpty, "seed \(seed)")
        }
    }
}
