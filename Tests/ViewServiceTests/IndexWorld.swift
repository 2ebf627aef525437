import Bytes
import Foundation
import Indexing
import JSON
import LinuxPlatform
import Persistence
import ScriptProcesses
import Scripting
import Seams
import TestSupport
import Testing
import ViewService
import Vocabulary
import Wire

/// Real threads, files and script processes for the indexes of one test.
final class IndexWorld: Sendable {
    let changes = MemoryChanges()
    let linux = LinuxEnvironment.make(reactors: 1, logLevel: .error)
    private let directory: String
    private let lane: any Lane
    private let scriptLane: any Lane
    let scripts: ScriptPool

    init() {
        directory =
            FileManager.default.temporaryDirectory
            .appending(path: "divan-views-\(UUID().uuidString)").path
        lane = linux.environment.lanes.makeLane("views")
        scriptLane = linux.environment.lanes.makeLane("scripts")
        scripts = ScriptPool(
            linux.environment,
            lane: scriptLane,
            category: "views",
            limits: ScriptScheduleLimits(processors: 2)
        )
    }

    func stop() {
        scripts.stop()
        scriptLane.stop()
        lane.stop()
        linux.stop()
        // The system clears what a test leaves behind.
        try? FileManager.default.removeItem(atPath: directory)
    }

    /// An index of all vBuckets; its file is kept between two indexes of one source.
    func index(
        _ source: String,
        _ limits: BulkLoad.Limits = BulkLoad.Limits(),
        mapsTombstones: Bool = false
    ) throws -> ViewIndex {
        let signature = "\(CRC32C.checksum(of: source))"
        let files = try IndexDirectory(path: directory, disk: linux.environment.disk)
        let file = try IndexFile(
            in: files,
            identity: IndexIdentity(
                signature: signature,
                collator: Collation.version,
                bucketUUID: "bucket",
                mapSource: source
            ),
            settings: IndexSettings()
        )
        let function = scripts.function(
            source,
            .map,
            ofBucket: "b",
            timeoutMilliseconds: 1_000
        )
        var dependencies = ViewIndex.Dependencies(
            environment: linux.environment,
            changes: changes,
            scripts: scripts,
            lane: lane
        )
        dependencies.loadLimits = limits
        dependencies.mapsTombstones = mapsTombstones
        let index = try ViewIndex(
            "d/v",
            ofBucket: "bucket",
            file: file,
            function: function,
            dependencies: dependencies
        )
        serve(index, Set(MemoryChanges.vBuckets))
        return index
    }

    func serve(_ index: ViewIndex, _ vBuckets: Set<VBucketID>) { index.serve(vBuckets) }

    /// Waits until the index has every change that was made before this call.
    func awaitFresh(_ index: ViewIndex) throws {
        let vector = changes.highVisible(of: MemoryChanges.vBuckets, ofBucket: "bucket")
        let outcome = Guarded<FreshnessWaiters.Outcome?>(nil)
        index.whenFresh(vector) { ended in outcome.withLock { $0 = ended } }
        try waitUntil("the index is fresh") { outcome.withLock { $0 } != nil }
        #expect(outcome.withLock { $0 } == .fresh)
    }

    /// Waits until the index has every change that was made before this call, of the history that
    /// each vBucket has now.
    func awaitFollowed(_ index: ViewIndex) throws {
        let vector = changes.highVisible(of: MemoryChanges.vBuckets, ofBucket: "bucket")
        try waitUntil("the index follows the histories") {
            let outcome = Guarded<FreshnessWaiters.Outcome?>(nil)
            index.whenFresh(vector) { ended in outcome.withLock { $0 = ended } }
            try waitUntil("the wait ends") { outcome.withLock { $0 } != nil }
            return outcome.withLock { $0 } == .fresh
        }
    }

    /// Ends the index and waits until its file is closed.
    func close(_ index: ViewIndex) {
        let isClosed = Guarded(false)
        index.stop()
        lane.post { isClosed.withLock { $0 = true } }
        while !isClosed.withLock({ $0 }) { Thread.sleep(forTimeInterval: 0.001) }
    }

    func errors(_ index: ViewIndex) -> ScriptErrors {
        let found = Guarded<ScriptErrors?>(nil)
        index.report { errors in found.withLock { $0 = errors } }
        while found.withLock({ $0 }) == nil { Thread.sleep(forTimeInterval: 0.001) }
        return found.withLock { $0 } ?? ScriptErrors()
    }

    // MARK: Reading the file

    /// All rows in order, as "key id value".
    func rows(_ index: ViewIndex) throws -> [String] {
        try read(index) { reads, nodes, head throws(StorageError) in
            var rows: [String] = []
            do throws(IndexError) {
                let walk = RangeWalk(nodes.tree(head.main, .row))
                while let entry = try walk.next() {
                    guard let key = RowKey(entry.key), case .inline(let value) = entry.value else {
                        Issue.record("a row is malformed")
                        continue
                    }
                    let text = ByteWriter()
                    _ = Collation.appendJSON(ofSortKey: key.sortKey, to: text)
                    let id = ByteWriter()
                    _ = key.appendID(to: id)
                    rows.append("\(text.view.text) \(id.view.text) \(value.text)")
                }
                let violations = try IndexCheck.violations(
                    main: nodes.tree(head.main, .row),
                    back: nodes.tree(head.back, .document)
                ) { row, id, key in
                    RowKey.append(sortKey: row.sortKey, id: id, ordinal: row.number, to: key)
                }
                #expect(violations.isEmpty)
            } catch {
                throw StorageError(.damaged, "\(error)")
            }
            return rows
        }
    }

    /// The rows of all vBuckets by the stored counts.
    func rowCounts(_ index: ViewIndex) throws -> UInt64 {
        try read(index) { reads, _, _ throws(StorageError) in
            try reads.vBuckets().reduce(0) { $0 + $1.rows }
        }
    }

    func homes(_ index: ViewIndex) throws -> [VBucketID: VBucketHome] {
        try read(index) { reads, _, _ throws(StorageError) in
            Dictionary(uniqueKeysWithValues: try reads.vBuckets().map { ($0.id, $0.home) })
        }
    }

    func read<Result>(
        _ index: ViewIndex,
        _ body: (IndexReads, StoredNodes, IndexHead) throws(StorageError) -> Result
    ) throws -> Result {
        let reader = try #require(try index.file.acquireReader())
        defer { index.file.release(reader) }
        let head = try reader.begin()
        return try reader.use { (reads) throws(StorageError) in
            try body(reads, StoredNodes(reads), head)
        }
    }
}

extension CRC32C {
    fileprivate static func checksum(of text: String) -> UInt32 {
        Array(text.utf8).withUnsafeBytes { checksum(ByteView($0)) }
    }
}
