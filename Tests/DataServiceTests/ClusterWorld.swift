import Bytes
import DataService
import Engine
import Foundation
import LinuxPlatform
import Seams
import TestWorld
import Testing
import Vocabulary

/// Several data services in one process, with streams between them, and a map set by the test.
///
/// Time is real here: a condition becomes true within `deadline`, or the test names it as failed.
final class ClusterWorld {
    private(set) var nodes: [UInt16: ClusterNode] = [:]
    let directories: [UInt16: String]
    private let lane: any Lane
    private let streams: MemoryStreams
    let vBuckets: Int

    init(nodes count: UInt16, vBuckets: Int = 8) throws {
        self.vBuckets = vBuckets
        lane = LinuxLanes(reactorCount: 1).makeLane("streams")
        streams = MemoryStreams(on: lane)
        directories = Dictionary(
            uniqueKeysWithValues: (1...count).map { ($0, TestWorld.freshDirectory()) }
        )
        for number in 1...count { try start(number) }
    }

    deinit {
        for number in nodes.keys { kill(number) }
        lane.stop()
        for directory in directories.values { TestWorld.remove(directory) }
    }

    /// The nodes to which streams were to be opened, in order.
    var openedStreams: [NodeNumber] { streams.opened.values }

    subscript(number: UInt16) -> ClusterNode {
        guard let node = nodes[number] else { fatalError("node \(number) does not run") }
        return node
    }

    func start(_ number: UInt16) throws {
        nodes[number] = ClusterNode(number, directory: directories[number] ?? "", streams)
    }

    /// Ends a node like a crash, as far as possible within one process: no flush, and no file is
    /// marked as clean.
    func kill(_ number: UInt16) { nodes.removeValue(forKey: number)?.end(cleanly: false) }

    func stop(_ number: UInt16) { nodes.removeValue(forKey: number)?.end(cleanly: true) }

    func settings(
        _ name: String,
        _ type: BucketType = .persistent,
        quota: UInt64 = 256 << 20
    ) -> BucketSettings {
        var settings = TestWorld.settings(name, type, quota: quota, vBuckets: vBuckets)
        settings.uuid = String(repeating: "0", count: 32 - name.utf8.count) + name
        return settings
    }

    /// A map with the given chain of each vBucket.
    func map(
        _ name: String,
        index: UInt64,
        fence: UInt64 = 1,
        isConfirmed: Bool = true,
        nextChain: [UInt16] = [],
        origin: UInt64 = 0,
        branch: UInt64? = nil,
        isResumed: Bool = false,
        builders: [UInt16] = [],
        chain: (Int) -> [UInt16]
    ) -> BucketAssignment {
        BucketAssignment(
            name: name,
            uuid: settings(name).uuid,
            index: index,
            vBuckets: (0..<vBuckets).map { number in
                VBucketAssignment(
                    fence: fence,
                    stage: index,
                    chain: chain(number).map { NodeNumber($0) },
                    isConfirmed: isConfirmed,
                    nextChain: nextChain.map { NodeNumber($0) },
                    builders: builders.map { NodeNumber($0) },
                    copies: 2,
                    origin: origin,
                    branch: branch,
                    isResumed: isResumed
                )
            }
        )
    }

    /// Opens a new bucket on all nodes, with the copies of `map`.
    func open(_ settings: BucketSettings, _ map: BucketAssignment) throws {
        for (number, node) in nodes {
            try node.service.open(settings, map, as: NodeNumber(number), isNew: true)
        }
    }

    func follow(_ map: BucketAssignment, on numbers: [UInt16]? = nil) {
        for number in numbers ?? nodes.keys.sorted() {
            self[number].service.applyMap(map, as: NodeNumber(number))
        }
    }

    // MARK: Waiting

    static let deadline: TimeInterval = 20

    func eventually(
        _ what: String,
        _ isSo: () -> Bool,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let end = Date(timeIntervalSinceNow: ClusterWorld.deadline)
        while !isSo() {
            guard Date() < end else {
                Issue.record("timed out waiting until \(what)", sourceLocation: sourceLocation)
                return
            }
            usleep(2_000)
        }
    }

    /// Waits until `other` has the same documents as `source`, in the vBuckets that `source`
    /// serves.
    func converge(
        _ name: String,
        _ source: UInt16,
        _ other: UInt16,
        sourceLocation: SourceLocation = #_sourceLocation
    ) {
        eventually(
            "\(name) of n\(other) equals that of n\(source)",
            {
                self[source].activeNumbers(name).allSatisfy { number in
                    let one = self[source].documents(name, number)
                    return one == self[other].documents(name, number)
                }
            },
            sourceLocation: sourceLocation
        )
    }
}

/// A document of a copy.
struct Held: Hashable {
    var seqno: Seqno
    var cas: CAS
    var isDeleted: Bool
    var value: [UInt8]?
    var hasAttributes = false
}

final class ClusterNode {
    let service: DocumentService
    let trace = RecordingTrace()
    private let world: LinuxEnvironment
    private let number: NodeNumber
    private let streams: MemoryStreams
    private let arena = Arena(pool: ChunkPool())
    private let scratch = ByteWriter()

    fileprivate init(_ number: UInt16, directory: String, _ streams: MemoryStreams) {
        self.number = NodeNumber(number)
        self.streams = streams
        world = LinuxEnvironment.make(reactors: 1, trace: trace)
        service = DocumentService(
            environment: world.environment,
            version: "7.6.2",
            dataDirectory: directory,
            plainBucketName: nil
        )
        service.use(streams.streams(of: self.number))
        service.startHousekeeping()
    }

    func end(cleanly: Bool) {
        if cleanly { waitFor { service.stop($0) } }
        waitFor { streams.remove(number, done: $0) }
        world.stop()
        service.stopLanes()
    }

    private func waitFor(_ begin: (@escaping @Sendable () -> Void) -> Void) {
        let isDone = DispatchSemaphore(value: 0)
        begin { isDone.signal() }
        #expect(isDone.wait(timeout: .now() + 10) == .success)
    }

    /// Ends the streams between this node and the others.
    func cut() { streams.cut(number) }

    // MARK: Documents

    func copy(_ name: String, _ number: Int) -> VBucket? {
        service.bucket(named: name)?.engine[UInt16(number)]
    }

    func activeNumbers(_ name: String) -> [Int] {
        guard let engine = service.bucket(named: name)?.engine else { return [] }
        return (0..<engine.count).filter { number in
            engine[UInt16(number)]?.withCore { $0.state == .active } ?? false
        }
    }

    /// All documents of a copy in memory; ejected values are nil.
    func documents(_ name: String, _ number: Int) -> [[UInt8]: Held] {
        var found: [[UInt8]: Held] = [:]
        copy(name, number)?.withCore { core in
            _ = core.table.visit(from: 0, groupsMax: .max / 2) { item in
                found[item.key.bytes] = Held(
                    seqno: item.seqno,
                    cas: item.cas,
                    isDeleted: item.isDeleted,
                    value: item.isEjected ? nil : item.value.bytes,
                    hasAttributes: item.hasAttributes
                )
            }
        }
        return found
    }

    func perform(_ action: DocumentAction, _ key: String, _ name: String) -> DocumentOutcome {
        let isDone = DispatchSemaphore(value: 0)
        let answer = Guarded<DocumentOutcome?>(nil)
        service.perform(action, on: Array(key.utf8), inBucket: name) { found in
            answer.withLock { $0 = found }
            isDone.signal()
        }
        isDone.wait()
        return answer.withLock { $0 } ?? .noBucket
    }

    /// Whether the document was written.
    @discardableResult
    func write(_ key: String, _ value: String, _ name: String) -> Bool {
        let action = DocumentAction.write(
            value: Array(value.utf8),
            flags: 0,
            expiry: 0,
            preservesExpiry: false
        )
        if case .written = perform(action, key, name) { return true }
        return false
    }

    /// Writes those of `keys` whose vBucket is active on this node.
    func write(_ keys: Range<Int>, _ name: String, size: Int = 20, round: Int = 0) {
        let filler = String(repeating: "x", count: size)
        for key in keys { write("key\(key)", "\(round) \(filler)", name) }
    }

    func delete(_ key: String, _ name: String) { _ = perform(.delete(), key, name) }

    var turn: ExecutionContext {
        ExecutionContext(
            wallNanoseconds: world.environment.time.wallNanoseconds(),
            arena: arena,
            scratch: scratch
        )
    }

    func ejectAll(_ name: String) {
        guard let engine = service.bucket(named: name)?.engine else { return }
        let turn = turn
        for vBucket in engine.all {
            vBucket.withCore { core in
                _ = core.ejectSlice(from: 0, groupsMax: .max / 2, threshold: .max, turn)
                // A frequently used document survives the first pass.
                _ = core.ejectSlice(from: 0, groupsMax: .max / 2, threshold: .max, turn)
            }
        }
    }

    func isPersisted(_ name: String) -> Bool {
        service.bucket(named: name)?.engine.all.allSatisfy { vBucket in
            vBucket.withCore { $0.durableSeqno == $0.highSeqno }
        } ?? false
    }

    func reports(_ name: String) -> [Int: CopyReport] {
        Dictionary(
            uniqueKeysWithValues: service.reports(name).map { (Int($0.vBucket.number), $0) }
        )
    }

    func logged(_ words: String) -> Bool {
        trace.lines(atLeast: .info).contains { $0.contains(words) }
    }
}
