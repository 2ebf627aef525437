import Bytes
import Foundation
import Persistence
import TestSupport
import Testing
import Vocabulary

/// A data directory that is removed after the test.
final class ControlDirectory {
    let root = FileManager.default.temporaryDirectory
        .appending(path: "divan-control-\(UUID().uuidString)").path
    var path: String { root + "/control.sqlite" }

    deinit { try? FileManager.default.removeItem(atPath: root) }

    func open() throws -> ControlStore { try ControlStore(disk: FileDisk(), directory: root) }

    /// A copy of the files as a process crash at this moment would leave them.
    func copy() throws -> ControlDirectory {
        let other = ControlDirectory()
        let files = FileManager.default
        try files.createDirectory(atPath: other.root, withIntermediateDirectories: true)
        for name in ["control.sqlite", "control.sqlite-wal"]
        where files.fileExists(atPath: "\(root)/\(name)") {
            try files.copyItem(atPath: "\(root)/\(name)", toPath: "\(other.root)/\(name)")
        }
        return other
    }

    func change(_ name: String, _ body: (inout Data) -> Void) throws {
        let url = URL(filePath: "\(root)/\(name)")
        var data = try Data(contentsOf: url)
        body(&data)
        try data.write(to: url)
    }

    var bytes: Int {
        ["control.sqlite", "control.sqlite-wal"].reduce(0) { sum, name in
            let attributes = try? FileManager.default.attributesOfItem(atPath: "\(root)/\(name)")
            return sum + ((attributes?[.size] as? NSNumber)?.intValue ?? 0)
        }
    }
}

/// The expected content of a `ControlStore`, in memory.
struct ControlModel: Equatable {
    var hardState = ControlHardState()
    var snapshot = ControlSnapshot(mark: mark(0, term: 0), state: [])
    var base = ControlPosition(term: 0, index: 0)
    var entries: [ControlEntry] = []
    var seals: [UInt16: ControlSeal] = [:]
    var facts: [String: [UInt8]] = [:]
    var staged: ControlSnapshot?

    static func mark(_ index: UInt64, term: UInt64) -> ControlSnapshotMark {
        ControlSnapshotMark(
            position: ControlPosition(term: term, index: index),
            configuration: [1, 2, UInt8(truncatingIfNeeded: index)]
        )
    }

    mutating func apply(_ change: ControlChange) {
        switch change {
        case .hardState(let state): hardState = state
        case .append(let new):
            guard let first = new.first else { return }
            entries.removeAll { $0.position.index >= first.position.index }
            entries += new
        case .prune(let position):
            guard position.index > base.index else { return }
            base = position
            entries.removeAll { $0.position.index <= position.index }
        case .snapshot(let own): snapshot = own
        case .stage(let mark): staged = ControlSnapshot(mark: mark, state: [])
        case .stageChunk(_, let bytes): staged?.state += bytes
        case .installStaged:
            guard let whole = staged else { return }
            snapshot = whole
            base = whole.mark.position
            entries = []
            staged = nil
        case .dropStaged: staged = nil
        case .seals(_, let new): for seal in new { seals[seal.vBucket.number] = seal }
        case .dropSeals: seals = [:]
        case .fact(let name, let bytes): facts[name] = bytes
        }
    }

    /// The content that a start reads, without a staged snapshot.
    static func found(in store: ControlStore) throws -> ControlModel {
        let contents = try #require(try store.load())
        var model = ControlModel()
        model.hardState = contents.hardState
        model.base = contents.base
        model.entries = contents.entries
        model.snapshot = try #require(try store.snapshot())
        #expect(model.snapshot.mark == contents.snapshot)
        for seal in try store.seals(ofBucket: "b") { model.seals[seal.vBucket.number] = seal }
        for name in ["one", "two"] { model.facts[name] = try store.fact(name) }
        return model
    }

    var withoutStaged: ControlModel {
        var model = self
        model.staged = nil
        return model
    }
}

/// Generates random changes such as the Raft driver commits, from a seed.
struct ControlWalk {
    var dice: SeededRandom
    var model = ControlModel()
    var term: UInt64 = 1
    var chunks: UInt64 = 0

    init(seed: UInt64) { dice = SeededRandom(seed: seed) }

    var last: UInt64 { model.entries.last?.position.index ?? model.base.index }

    mutating func next() -> [ControlChange] {
        var changes: [ControlChange] = []
        for _ in 0...dice.below(3) {
            let change = nextChange()
            model.apply(change)
            changes.append(change)
        }
        return changes
    }

    private mutating func entries(from first: UInt64) -> [ControlEntry] {
        (0...UInt64(dice.below(5))).map { offset in
            ControlEntry(
                position: ControlPosition(term: term, index: first + offset),
                kind: UInt8(dice.below(3)),
                bytes: dice.bytes(dice.below(3_000))
            )
        }
    }

    private mutating func nextChange() -> ControlChange {
        switch dice.below(16) {
        case 0..<5: return .append(entries(from: last + 1))
        case 5:
            // A leader of a later term replaces the log's end, but no entry of the snapshot.
            term += 1
            let least = model.snapshot.mark.position.index + 1
            return .append(entries(from: max(least, last > 3 ? last - 2 : 1)))
        case 6..<9:
            let vote = UInt16(dice.below(4))
            return .hardState(ControlHardState(term: term, vote: vote, commit: last))
        case 9:
            let at = model.entries.last?.position ?? model.base
            guard at.index > model.snapshot.mark.position.index else { return .dropStaged }
            let mark = ControlModel.mark(at.index, term: at.term)
            return .snapshot(ControlSnapshot(mark: mark, state: dice.bytes(dice.below(200_000))))
        case 10:
            let snapshot = model.snapshot.mark.position.index
            let place = model.entries.last { $0.position.index <= snapshot }
            return .prune(place?.position ?? model.base)
        case 11:
            chunks = 0
            return .stage(ControlModel.mark(last + 5, term: term))
        case 12 where model.staged != nil:
            chunks += 1
            return .stageChunk(number: chunks - 1, bytes: dice.bytes(1 + dice.below(65_535)))
        case 13 where model.staged.map { $0.state.isEmpty } == false:
            guard let staged = model.staged, staged.mark.position.index > last else {
                return .dropStaged
            }
            return .installStaged
        case 14:
            let seals = (0...dice.below(8)).map { number in
                ControlSeal(
                    vBucket: VBucketID(UInt16(number)),
                    fence: UInt64(dice.below(1_000)),
                    term: term
                )
            }
            return .seals(bucketUUID: "b", seals)
        default:
            let name = dice.below(2) == 0 ? "one" : "two"
            return .fact(name: name, dice.below(4) == 0 ? nil : dice.bytes(dice.below(40)))
        }
    }
}
