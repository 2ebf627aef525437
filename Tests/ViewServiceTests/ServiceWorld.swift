import Bytes
import Foundation
import Indexing
import LinuxPlatform
import Seams
import Testing
import ViewService
import Vocabulary

/// Real threads, files and script processes for the index services of one test.
final class ServiceWorld: Sendable {
    let changes = MemoryChanges()
    let trace = MemoryTrace()
    let directory: String
    private let linux: LinuxEnvironment

    /// Only tells a hang from an answer.
    private static let deadlineSeconds = 60.0

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
        let own = linux.environment
        let environment = Environment(
            time: time ?? own.time,
            entropy: own.entropy,
            network: own.network,
            disk: own.disk,
            lanes: lanes ?? own.lanes,
            trace: own.trace,
            children: own.children
        )
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
                service.index(service.signature(of: definition), ofBucket: uuid) !== index
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
            found = service.index(service.signature(of: definition), ofBucket: uuid)
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
            scan: ScanPlan(
                reduction: .none,
                ranges: [RowRange()],
                hasKeys: false,
                isDescending: false,
                rowsMax: nil
            ),
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

    func waitUntil(_ what: String, _ isTrue: () throws -> Bool) throws {
        let end = Date().addingTimeInterval(ServiceWorld.deadlineSeconds)
        while try !isTrue() {
            try #require(Date() < end, "waited in vain until \(what)")
            Thread.sleep(forTimeInterval: 0.005)
        }
    }

    // MARK: Files

    /// The names of a bucket's files; nil if it has no directory.
    func files(_ uuid: String = "b1") -> [String]? {
        try? FileManager.default.contentsOfDirectory(atPath: "\(directory)/indexes/\(uuid)")
    }

    func path(_ service: IndexService, _ definition: ViewDefinition) -> String {
        "\(directory)/indexes/b1/\(service.signature(of: definition)).sqlite"
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

/// Keeps what was logged.
final class MemoryTrace: Trace {
    let threshold = Severity.info
    private let messages = Guarded<[String]>([])

    func log(_ severity: Severity, _ module: String, _ message: String) {
        messages.withLock { $0.append(message) }
    }

    func count(_ part: String) -> Int { messages.withLock { $0.count { $0.contains(part) } } }
}

/// Lanes of indexes that are quick: the first work of each is done before its post returns.
struct QuickIndexLanes: LaneFactory {
    let base: any LaneFactory

    var reactorCount: Int { base.reactorCount }

    func makeLane(_ name: String, isPatient: Bool) -> any Lane {
        let lane = base.makeLane(name, isPatient: isPatient)
        return name.contains(/^index-\d+$/) ? QuickLane(lane) : lane
    }
}

private final class QuickLane: Lane {
    private let base: any Lane
    private let isUsed = Guarded(false)

    init(_ base: any Lane) { self.base = base }

    var name: String { base.name }

    func post(_ work: @escaping @Sendable () -> Void) {
        let isFirst = isUsed.withLock { isUsed in
            defer { isUsed = true }
            return !isUsed
        }
        guard isFirst else { return base.post(work) }
        let isDone = DispatchSemaphore(value: 0)
        base.post {
            work()
            isDone.signal()
        }
        isDone.wait()
    }

    func post(after nanoseconds: UInt64, _ work: @escaping @Sendable () -> Void) -> LaneTimer {
        base.post(after: nanoseconds, work)
    }

    func stop() { base.stop() }
}
