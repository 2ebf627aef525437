internal import Bytes

/// One file: the content that processes read, the content that survives a power cut, and the pending
/// changes between them.
///
/// - `live` has every write. `durable` has the synced writes. `pending` lists the unsynced changes in
///   order: applied to `durable`, they yield `live`.
/// - Locks and shared memory end with the process that holds them.
final class SimulatedFile {
    private enum Change {
        /// Bytes `start ..< start + count` of `log`, written at `offset`.
        case write(offset: Int, start: Int, count: Int)
        case resize(Int)
    }

    let live = ByteWriter(capacity: 16)
    private let durable = ByteWriter(capacity: 16)
    private var pending: [Change] = []
    private let log = ByteWriter(capacity: 16)
    /// The SQLite handles of the file, in order of opening.
    var openFiles: [OpenFile] = []
    var sharedMemory: SharedMemory?

    var size: Int { live.count }

    func write(_ bytes: ByteView, at offset: Int) {
        pending.append(.write(offset: offset, start: log.count, count: bytes.count))
        log.append(bytes)
        SimulatedFile.write(bytes, at: offset, to: live)
    }

    func resize(to size: Int) {
        pending.append(.resize(size))
        SimulatedFile.resize(live, to: size)
    }

    /// Makes every write so far durable.
    func sync() {
        for change in pending { apply(change) }
        forgetPending()
    }

    /// Applies a power cut: each pending change is kept or dropped at random, and the last kept write
    /// may be truncated.
    func losePower(_ random: inout SeededRandom) {
        let kept = pending.filter { _ in random.next() & 1 == 0 }
        for (index, change) in kept.enumerated() {
            let isTorn = index == kept.count - 1 && random.next() & 1 == 0
            if isTorn, case .write(let offset, let start, let count) = change {
                let part = Int(random.next() % UInt64(count + 1))
                apply(.write(offset: offset, start: start, count: part))
            } else {
                apply(change)
            }
        }
        forgetPending()
        live.removeAll()
        live.append(durable.view)
    }

    /// Applies a failed sync: each pending change is written or dropped at random, and the dropped
    /// ones are never retried.
    func loseSync(_ random: inout SeededRandom) {
        for change in pending where random.next() & 1 == 0 { apply(change) }
        forgetPending()
    }

    func flipByte(at offset: Int, _ mask: UInt8) {
        for content in [live, durable] where offset < content.count {
            let byte = content.start + offset
            let flipped = byte.load(as: UInt8.self) ^ mask
            byte.storeBytes(of: flipped, as: UInt8.self)
        }
    }

    private func forgetPending() {
        pending.removeAll(keepingCapacity: true)
        log.removeAll(keepingAtMost: 1 << 20)
    }

    private func apply(_ change: Change) {
        switch change {
        case .write(let offset, let start, let count):
            SimulatedFile.write(log.view.slice(start, count), at: offset, to: durable)
        case .resize(let size): SimulatedFile.resize(durable, to: size)
        }
    }

    private static func write(_ bytes: ByteView, at offset: Int, to content: ByteWriter) {
        guard bytes.count > 0 else { return }
        let end = offset + bytes.count
        if end > content.count { resize(content, to: end) }
        Memory.copy(to: content.start + offset, from: bytes.start, count: bytes.count)
    }

    private static func resize(_ content: ByteWriter, to size: Int) {
        if size <= content.count {
            content.truncate(to: size)
        } else {
            let added = size - content.count
            content.claim(added).initializeMemory(as: UInt8.self, repeating: 0, count: added)
        }
    }
}
