import DataService
import LinuxPlatform
import Seams
import TestWorld
import Testing
import Vocabulary

/// A deleted bucket's documents are gone, even if its files cannot be removed.
@Suite struct DeletionTests {
    let disk = FaultyDisk(over: LinuxDisk())
    let world: TestWorld

    init() throws {
        world = TestWorld(disk: disk)
        try world.service.open(TestWorld.settings("guests", .persistent))
        _ = world.client(of: "guests").ask(Ask.set("old", "value"))
        world.pass(milliseconds: 500)
        disk.isFull = true
        #expect(throws: (any Error).self) { try world.service.delete("guests") }
    }

    private var anew: BucketSettings {
        var settings = TestWorld.settings("guests", .persistent)
        settings.uuid = "fedcba9876543210fedcba9876543210"
        return settings
    }

    private var directories: [String] {
        get throws { try LinuxDisk().list(world.directory + "/buckets") }
    }

    @Test func bucketIsRefusedWhileDeletedBucketsFilesRemain() throws {
        #expect(world.service.bucket(named: "guests") == nil)
        #expect(try directories == ["guests"])
        let alerts = world.service.alerts.current.map(\.message)
        #expect(alerts.contains { $0.contains("deleted bucket guests") && $0.contains("no room") })
        let error = #expect(throws: (any Error).self) { try world.service.open(anew) }
        let sentence = String(describing: error)
        #expect(sentence.contains("cannot be put aside"))
        #expect(sentence.contains("remove that directory"))
        #expect(world.service.bucket(named: "guests") == nil)
        // Deleting a bucket that was not created does not make the old files the new bucket's.
        try world.service.delete("guests")
        #expect(throws: (any Error).self) { try world.service.open(anew) }
    }

    @Test func bucketCreatedAfterRemovalOfOldFilesIsEmpty() throws {
        #expect(throws: (any Error).self) { try world.service.open(anew) }
        try world.service.delete("guests")
        disk.isFull = false
        try world.service.open(anew)
        world.settle()
        #expect(world.service.alerts.current.isEmpty)
        let client = world.client(of: "guests")
        #expect(client.ask(Ask.get("old")).map(\.status) == [1])
        #expect(client.ask(Ask.set("new", "value")).map(\.status) == [0])
        world.pass(milliseconds: 500)
        #expect(world.stop())
        #expect(try directories == ["guests"])
    }

    @Test func deletionOfFilesIsRetriedUntilItSucceeds() throws {
        world.service.startHousekeeping()
        world.pass(milliseconds: 61_000)
        #expect(try directories == ["guests"])
        disk.isFull = false
        world.pass(milliseconds: 61_000)
        #expect(try directories == [])
        #expect(world.service.alerts.current.isEmpty)
    }

    @Test func unopenedBucketIsDeletedOnlyWithMatchingUUID() throws {
        // As after a restart: the files are another bucket's, and `remains` is empty.
        let other = TestWorld(directory: world.directory)
        #expect(throws: (any Error).self) { try other.service.open(anew) }
        try other.service.delete("guests")
        #expect(try directories == ["guests"])
        // A bucket that cannot be opened with all its vBuckets is removed when it is deleted.
        var wrong = TestWorld.settings("guests", .persistent)
        wrong.vBuckets = 128
        #expect(throws: (any Error).self) { try other.service.open(wrong) }
        try other.service.delete("guests")
        other.settle()
        #expect(try directories == [])
    }
    /// The node was away while its bucket was deleted and created again, more than once.
    ///
    /// It knows only of the second one, so that the files of the first one are never deleted by
    /// name.
    @Test func leftoverFilesAreRemovedOnlyIfKnownToBeDeletedBuckets() throws {
        let other = TestWorld(directory: world.directory)
        let own = NodeNumber(1)
        let map = BucketAssignment(
            name: "guests",
            uuid: anew.uuid,
            index: 1,
            vBuckets: (0..<anew.vBuckets).map { _ in
                VBucketAssignment(fence: 1, stage: 1, chain: [own], copies: 1)
            }
        )
        // While the node may know less than its own files, the files stay.
        let error = #expect(throws: (any Error).self) {
            try other.service.open(anew, map, as: own, isNew: false)
        }
        #expect(String(describing: error).contains("belongs to bucket"))
        try other.service.delete("guests")
        #expect(try directories == ["guests"])
        try other.service.open(anew, map, as: own, isNew: false, isCurrent: true)
        other.settle()
        #expect(other.service.bucket(named: "guests")?.uuid == anew.uuid)
        #expect(try directories == ["guests"])
        #expect(other.trace.lines(atLeast: .warning).contains { $0.contains("the deleted bucket") })
        let client = other.client(of: "guests")
        #expect(client.ask(Ask.get("old")).map(\.status) == [1])
        // The bucket's own files stay in any case.
        #expect(client.ask(Ask.set("new", "value")).map(\.status) == [0])
        other.pass(milliseconds: 500)
        #expect(other.stop())
        let next = TestWorld(directory: world.directory)
        try next.service.open(anew, map, as: own, isNew: false, isCurrent: true)
        next.settle()
        #expect(next.client(of: "guests").ask(Ask.get("new")).map(\.text) == ["value"])
    }
}
