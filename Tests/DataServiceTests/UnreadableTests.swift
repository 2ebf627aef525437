import Foundation
import Testing
import Vocabulary

/// A disk that cannot be read, and the streams that it must not block.
@Suite(.serialized) struct UnreadableTests {
    /// Moves the files of a bucket away until `restore(_:)`.
    private func moveFilesAway(
        _ bucket: String,
        from node: UInt16,
        in world: ClusterWorld
    ) throws -> [String] {
        let directory = try #require(world.directories[node]) + "/buckets/" + bucket
        let files = try FileManager.default.subpathsOfDirectory(atPath: directory)
            .filter { $0.hasSuffix(".sqlite") }.map { directory + "/" + $0 }
        for file in files { try FileManager.default.moveItem(atPath: file, toPath: file + ".away") }
        return files
    }

    private func restore(_ files: [String]) throws {
        for file in files { try FileManager.default.moveItem(atPath: file + ".away", toPath: file) }
    }

    /// The stream of the unreadable bucket is suspended, while others continue on the same
    /// connection.
    @Test func unreadableBucketDoesNotBlockStreamsOfOtherBuckets() throws {
        let world = try ClusterWorld(nodes: 2)
        for name in ["a", "b"] {
            var settings = world.settings(name)
            settings.evictionPolicy = .fullEviction
            try world.open(settings, world.map(name, index: 1) { _ in [1, 2] })
        }
        world[1].write(0..<100, "a")
        world.converge("a", 1, 2)
        world.eventually("everything is persisted") { world[2].isPersisted("a") }
        world[2].ejectAll("a")
        let isOut = { (0..<8).allSatisfy { world[2].documents("a", $0).isEmpty } }
        #expect(isOut())
        let files = try moveFilesAway("a", from: 2, in: world)
        #expect(!files.isEmpty)
        // The version that a change replaces has to be read before the change is applied.
        world[1].write(0..<100, "a", round: 1)
        world.eventually("a read from disk failed") { world[2].logged("fetcher") }
        world[1].write(0..<100, "b")
        world.converge("b", 1, 2)
        #expect(isOut())
        try restore(files)
        world.converge("a", 1, 2)
        #expect(!world[2].logged("Rebuilding"))
    }
}
