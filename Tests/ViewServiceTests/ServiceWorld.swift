import Bytes
import Foundation
import Indexing
import LinuxPlatform
import Seams
import TestSupport
import Testing
import ViewService
import Vocabulary

/// Real threads, files and script processes for the index services of one test.
final class ServiceWorld: Sendable {
    let changes = MemoryChanges()
    let trace = RecordingTrace()
    let directory: String
    private let linux: LinuxEnvironment

    init() {
        linux = LinuxEnvironment.make(reactors: 1, trace: trace)
        directory =
            FileManager.default.temporaryDirectory
            .appending(path: "divan-indexes-\(UUID().uuidString)").path
    }

    var environment: Environment { linux.environment }

    func stop() {
        linux.stop()
        // The system clears what a test leaves behind.
        try? FileManager.default.removeItem(atPath: directory)
    }

    /// A service on the files that the service before has left, by the clock `time` and on the lanes of
    /// `lanes` if there are such.
    func service(
        time: (any TimeSource)? = nil,
        lanes: (any LaneFactory)? = nil,
        _ change: (inout IndexService.Settings) -> Void = { _ in }
    ) throws -> IndexService {
        var settings = IndexService.Settings(directory: directory, processors: 2)
        change(&settings)
        let environment = linux.environment.with(time: time, lanes: lanes)
        return try IndexService(settings, environment: environment, changes: changes)
    }

    func stop(_ service: IndexService) throws {
        let isStopped = Guarded(false)
        service.stop { isStopped.withLock { $0 = true } }
        try waitUntil("the service has stopped") { isStopped.withLock { $0 } }
        service.stopLanes()
    }

    func bucket(
        _ views: [ViewDefinition],
        uuid: String = "b1",
        served: [VBucketID] = MemoryChanges.vBuckets,
        revision: UInt64 = 1,
        documents: [String: DocumentRevision] = [:]
    ) -> ViewBucket {
        var bucket = ViewBucket(
            uuid: uuid,
            name: "beer",
            views: views,
            served: Set(served),
            mapRevision: revision
        )
        bucket.revisions = documents
        return bucket
    }

    func view(_ name: String, _ map: String, _ reduce: ViewDefinition.Reduce? = nil)
        -> ViewDefinition
    {
        let parts = name.split(separator: "/").map(String.init)
        return ViewDefinition(designDocument: parts[0], view: parts[1], map: map, reduce: reduce)
    }

    /// Waits until the view's index is open and has every change that was made before this call.
    @discardableResult
    func awaitFresh(
        _ service: IndexService,
        _ definition: ViewDefinition,
        uuid: String = "b1"
    ) throws -> ViewIndex {
        let vector = changes.highVisible(of: MemoryChanges.vBuckets, ofBucket: uuid)
        while true {
            let index = try awaitOpen(service, definition, uuid)
            let outcome = Guarded<FreshnessWaiters.Outcome?>(nil)
            index.whenFresh(vector) { ended in outcome.withLock { $0 = ended } }
            try waitUntil("the index is fresh") { outcome.withLock { $0 } != nil }
            // An index that was replaced meanwhile ends the wait.
            let isReplaced =
                service.index(IndexSigning.signature(of: definition), ofBucket: uuid) !== index
            if outcome.withLock({ $0 }) == .ended, isReplaced { continue }
            #expect(outcome.withLock { $0 } == .fresh)
            return index
        }
    }

    private func awaitOpen(
        _ service: IndexService,
        _ definition: ViewDefinition,
        _ uuid: String
    ) throws -> ViewIndex {
        // An index that is open may be replaced at any moment, so it is kept when it is seen.
        var found: ViewIndex?
        try waitUntil("the index is open") {
            found = service.index(IndexSigning.signature(of: definition), ofBucket: uuid)
            return found != nil
        }
        return try #require(found)
    }

    /// A request for all rows of an index.
    func request(_ choice: IndexChoice) -> QueryRequest {
        var request = QueryRequest(
            bucket: "b1",
            index: QueryRequest.IndexSelection(
                choice: choice,
                collation: IndexService.collationVersion
            ),
            scan: ScanPlan(of: RowRange()),
            freshness: .any
        )
        request.mapRevision = 1
        request.vBuckets = MemoryChanges.vBuckets
        request.startMillisecondsMax = 60_000
        return request
    }

    func reports(_ service: IndexService) throws -> [IndexReport] {
        let found = Guarded<[IndexReport]?>(nil)
        service.report { reports in found.withLock { $0 = reports } }
        try waitUntil("the indexes report") { found.withLock { $0 } != nil }
        return found.withLock { $0 } ?? []
    }

    /// The number of log lines that contain `part`.
    func logCount(_ part: String) -> Int { trace.lines().count { $0.contains(part) } }

    // MARK: Files

    /// The names of a bucket's files; nil if it has no directory.
    func files(_ uuid: String = "b1") -> [String]? {
        try? FileManager.default.contentsOfDirectory(atPath: "\(directory)/indexes/\(uuid)")
    }

    func path(_ service: IndexService, _ definition: ViewDefinition) -> String {
        "\(directory)/indexes/b1/\(IndexSigning.signature(of: definition)).sqlite"
    }

    func write(_ text: String, to path: String) throws {
        let folder = (path as NSString).deletingLastPathComponent
        try FileManager.default.createDirectory(
            atPath: folder,
            withIntermediateDirectories: true
        )
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
    }
}

/// Lanes of indexes that are quick: the first work of each is done before its post returns.
func quickIndexLanes(over base: any LaneFactory) -> any LaneFactory {
    let used = Guarded<Set<String>>([])
    return TappedLanes(over: base) { lane, work in
        let isFirst = used.withLock { $0.insert(lane.name).inserted }
        guard isFirst, lane.name.contains(/^index-\d+$/) else { return work }
        let isDone = DispatchSemaphore(value: 0)
        lane.post {
            work()
            isDone.signal()
        }
        isDone.wait()
        return nil
    }
}

extension ScanPlan {
    /// All rows of a range.
    init(of range: RowRange) {
        self.init()
        ranges = [range]
    }
}
