import Bytes
import ClusterService
import Credentials
import Seams
import TestSupport
import Testing
import Vocabulary
import Wire

/// Connections of a service that not every release has.
@Suite struct PeerServiceLevelTests {
    private static let below = FeatureLevel.lowest
    private static let level = FeatureLevel.first

    /// Two connected nodes that serve feeds.
    ///
    /// - Parameters:
    ///   - announced: The level that each node announces.
    ///   - levels: The cluster's level as each node has it.
    /// - Throws: The network's error.
    /// - Returns: The nodes.
    private func nodes(
        announced: [FeatureLevel],
        levels: [FeatureLevel]
    ) async throws -> [PeerNode] {
        let nodes = try (1...2).map { try PeerNode($0) }
        for (index, node) in nodes.enumerated() {
            node.transport.register(.feeds) { _ in
                ClosureHandler.sink()
            }
            node.identify(level: announced[index])
            node.know(nodes, level: levels[index])
        }
        #expect(await nodes[0].connected(to: nodes[1]))
        return nodes
    }

    /// The outcome of a connection for a feed from the first node to the second: nil if it is open.
    private func outcome(_ nodes: [PeerNode]) async -> PeerFailure? {
        let outcomes = Signal<PeerFailure?>()
        nodes[0].transport.open(
            .feeds,
            to: nodes[1].number,
            connected: { _ in
                outcomes.send(nil)
                return ClosureHandler.sink()
            },
            failed: { outcomes.send($0) }
        )
        return await outcomes.wait().first ?? .timedOut
    }

    @Test func feedsAreOpenedAtTheirLevel() async throws {
        let nodes = try await nodes(
            announced: [Self.level, Self.level],
            levels: [Self.level, Self.level]
        )
        defer { for node in nodes { node.stop() } }
        #expect(await outcome(nodes) == nil)
    }

    @Test func feedsAreNotDialledBelowTheirLevel() async throws {
        let nodes = try await nodes(
            announced: [Self.level, Self.level],
            levels: [Self.below, Self.level]
        )
        defer { for node in nodes { node.stop() } }
        #expect(await outcome(nodes) == .levelTooLow(Self.level))
        #expect(
            PeerFailure.levelTooLow(Self.level).description
                == "the cluster's feature level is below 1: upgrade all its nodes"
        )
    }

    /// The responder has not applied the raise yet, and understands feeds.
    @Test func feedsAreAcceptedWhileTheRaiseArrives() async throws {
        let nodes = try await nodes(
            announced: [Self.level, Self.level],
            levels: [Self.level, Self.below]
        )
        defer { for node in nodes { node.stop() } }
        #expect(await outcome(nodes) == nil)
    }

    @Test func nodeBelowTheLevelIsNotServedFeeds() async throws {
        let nodes = try await nodes(
            announced: [Self.below, Self.level],
            levels: [Self.below, Self.below]
        )
        defer { for node in nodes { node.stop() } }
        // Its own transport does not prevent the call.
        nodes[0].know(nodes, level: Self.level)
        let isApplied = await eventually {
            await outcome(nodes) == .refused(.levelTooLow(required: Self.level))
        }
        #expect(isApplied)
    }

    @Test func nodeBelowTheLevelServesNoFeeds() async throws {
        let nodes = try await nodes(
            announced: [Self.level, Self.below],
            levels: [Self.below, Self.below]
        )
        defer { for node in nodes { node.stop() } }
        nodes[0].know(nodes, level: Self.level)
        let isApplied = await eventually {
            await outcome(nodes) == .refused(.levelTooLow(required: Self.level))
        }
        #expect(isApplied)
    }
}
