internal import Bytes
internal import Engine
internal import Persistence
internal import Seams
internal import Vocabulary

/// Saves on disk which documents are in use, so that the warmup of a killed node also begins with
/// them.
///
/// Reads the heat in slices on the nonIO lane and writes it on the writer lanes, one small
/// transaction at a time. Only what differs from the last write is written, and nothing if the
/// bucket was not used since.
///
/// - A lane file whose values are still being warmed up is skipped: the disk knows more than
///   memory.
final class HeatSaver: Sendable {
    private struct State {
        var isBusy = false
        var isStopped = false
        /// The count of commands at the last save.
        var uses: UInt64 = 0
        /// Checksums of the heat that was last written.
        var marks: [VBucketID: UInt32] = [:]
    }

    /// The remainder of the running save.
    private struct Round {
        var vBuckets: ArraySlice<VBucket>
        var lanes: ArraySlice<LaneStore>
    }

    private typealias Page = [(vBucket: VBucketID, bytes: [UInt8])]

    private let parts: BucketParts
    private let warmup: Warmup
    private let state = Guarded(State())

    private static let groupsPerSlice = 128
    private static let vBucketsPerTurn = 16
    /// The approximate bytes of one transaction.
    private static let pageBytes = 256 << 10

    init(_ parts: BucketParts, warmup: Warmup) {
        self.parts = parts
        self.warmup = warmup
    }

    func stop() { state.withLock { $0.isStopped = true } }

    /// Saves the changes since the last save.
    ///
    /// Callable from any lane.
    func save() {
        let uses =
            parts.counters.total(.gets) &+ parts.counters.total(.sets)
            &+ parts.counters.total(.otherCommands)
        let isDue = state.withLock { state in
            guard !state.isBusy, !state.isStopped, state.uses != uses else { return false }
            state.isBusy = true
            state.uses = uses
            return true
        }
        guard isDue else { return }
        post(Round(vBuckets: parts.engine.all[...], lanes: parts.store.lanes[...]))
    }

    private func post(_ round: Round) {
        parts.lanes.nonIO.lane.post { [self] in gather(round) }
    }

    private func finish() { state.withLock { $0.isBusy = false } }

    // MARK: On the nonIO lane

    private func gather(_ round: Round) {
        var round = round
        guard !state.withLock({ $0.isStopped }), let lane = round.lanes.first else {
            return finish()
        }
        var page: Page = []
        var bytes = 0
        if warmup.isWarm(lane.number) {
            for _ in 0..<HeatSaver.vBucketsPerTurn where bytes < HeatSaver.pageBytes {
                guard let vBucket = round.vBuckets.popFirst() else { break }
                guard let heat = changedHeat(of: vBucket, in: lane) else { continue }
                bytes += heat.bytes.count
                page.append(heat)
            }
        } else {
            round.vBuckets = []
        }
        if round.vBuckets.isEmpty {
            round.lanes = round.lanes.dropFirst()
            round.vBuckets = parts.engine.all[...]
        }
        page.isEmpty ? post(round) : write(page, to: lane, then: round)
    }

    /// The heat of a vBucket; nil if it does not differ from the heat on disk, as far as known.
    private func changedHeat(
        of vBucket: VBucket,
        in lane: LaneStore
    ) -> (vBucket: VBucketID, bytes: [UInt8])? {
        let id = vBucket.withCore { $0.id }
        guard lane.owns(id) else { return nil }
        var sample = HeatSample()
        vBucket.forEachSlice { core, from in
            guard core.isLoaded else { return nil }
            return core.noteHeat(&sample, from: from, groupsMax: HeatSaver.groupsPerSlice)
        }
        let heat = Heat(sample)
        let mark = state.withLock { $0.marks[id] }
        // Empty heat overwrites what this run of the node wrote; heat of an earlier run may stay.
        if heat.isEmpty, mark == nil { return nil }
        let bytes = heat.bytes
        return HeatSaver.checksum(bytes) == mark ? nil : (id, bytes)
    }

    private static func checksum(_ bytes: [UInt8]) -> UInt32 {
        bytes.withUnsafeBytes { CRC32.checksum(ByteView($0)) }
    }

    // MARK: On a writer lane

    private func write(_ page: Page, to lane: LaneStore, then round: Round) {
        parts.lanes.writer(ofLane: lane.number).lane.post { [self] in
            guard !state.withLock({ $0.isStopped }) else { return finish() }
            do throws(StorageError) {
                try lane.saveHeat(page)
            } catch {
                // Heat is optional: the next save is soon enough, and other operations report a
                // failing disk.
                if error.code != .gone {
                    parts.environment.trace.info(
                        "heat",
                        bucket: parts.engine.name,
                        "bucket \(parts.engine.name): \(error.description)"
                    )
                }
                return finish()
            }
            state.withLock { state in
                for (id, bytes) in page { state.marks[id] = HeatSaver.checksum(bytes) }
            }
            post(round)
        }
    }
}
