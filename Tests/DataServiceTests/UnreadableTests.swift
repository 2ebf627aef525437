import Foundation
import Testing
import Vocabulary

/// A disk that cannot be read, and whom that keeps waiting.
@Suite(.serialized) struct UnreadableTests {
    /// Files of a bucket, out of reach until `put(back:)`.
    private func takeAway(
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

    private func put(back files: [String]) throws {
        for file in files { try FileManager.default.moveItem(atPath: file + ".away", toPath: file) }
    }

    /// Its stream stands back, and the others come through on the same connection.
    @Test func aBucketThatCannotBeReadKeepsNoOtherWaiting() throws {
        let world = try ClusterWorld(nodes: 2)
        for name in ["a", "b"] {
            var settings = world.settings(name)
            settings.evictionPolicy = .fullEviction
            try world.open(settings, world.map(name, index: 1) { _ in [1, 2] })
        }
        world[1].write(0..<100, "a")
        world.converge("a", 1, 2)
        world.eventually("everything is on disk") { world[2].isPersisted("a") }
        world[2].ejectAll("a")
        let isOut = { (0..<8).allSatisfy { world[2].documents("a", $0).isEmpty } }
        #expect(isOut())
        let files = try takeAway("a", from: 2, in: world)
        #expect(!files.isEmpty)
        // What a change replaces has to be read before it is taken up.
        world[1].write(0..<100, "a", round: 1)
        world.eventually("the disk was asked") { world[2].told("fetcher") }
        world[1].write(0..<100, "b")
        world.converge("b", 1, 2)
        #expect(isOut())
        try put(back: files)
        world.converge("a", 1, 2)
        #expect(!world[2].told("Rebuilding"))
    }
}
