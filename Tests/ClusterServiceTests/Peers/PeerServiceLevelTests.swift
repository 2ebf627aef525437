import Bytes
import ClusterService
import Credentials
import Seams
import TestSupport
import Testing
import Vocabulary
import Wire

/// Streams of a service that not every release has.
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
            _ = TestStream.serve(.feeds, of: node, .init(outbox: [[1]]))
            node.identify(level: announced[index])
            node.know(nodes, level: levels[index])
        }
        #expect(await nodes[0].connected(to: nodes[1]))
        return nodes
    }

    /// The outcome of a stream for a feed from the first node to the second: nil if it is served.
    private func outcome(_ nodes: [PeerNode]) async -> String? {
        let (opened, failures) = (Signal<TestStream>(), Signal<String>())
        nodes[0].transport.open(
            .feeds,
            to: nodes[1].number,
            request: [],
            opened: { port in
                let stream = TestStream(port)
                opened.send(stream)
                return stream
            },
            failed: { failures.send($0) }
        )
        _ = await eventually { !opened.values.isEmpty || !failures.values.isEmpty }
        guard let stream = opened.values.first else { return failures.values.first }
        _ = await eventually { !stream.messages.values.isEmpty || !stream.closes.values.isEmpty }
        defer { stream.port.end(nil) }
        return stream.closes.values.first ?? nil
    }

    @Test func feedsAreOpenedAtTheirLevel() async throws {
        let nodes = try await nodes(
            announced: [Self.level, Self.level],
            levels: [Self.level, Self.level]
        )
        defer { for node in nodes { node.stop() } }
        #expect(await outcome(nodes) == nil)
    }

    @Test func feedsAreNotOpenedBelowTheirLevel() async throws {
        let nodes = try await nodes(
            announced: [Self.level, Self.level],
            levels: [Self.below, Self.level]
        )
        defer { for node in nodes { node.stop() } }
        let expected = "the cluster's feature level is below 1: upgrade all its nodes"
        #expect(await outcome(nodes) == expected)
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
        // Its own transport does not prevent the stream.
        nodes[0].know(nodes, level: Self.level)
        let isApplied = await eventually {
            await outcome(nodes) == "it does not serve the service 8"
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
        let expected = PeerRefusal.levelTooLow(required: Self.level).description
        let isApplied = await eventually {
            await outcome(nodes) == expected
        }
        #expect(isApplied)
    }
}
