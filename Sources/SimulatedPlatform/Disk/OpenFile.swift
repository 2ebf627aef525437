internal import Bytes
internal import CSQLite

/// One SQLite handle of a simulated file, with the locks that it holds.
///
/// Locks work as in SQLite's `unix` VFS: any number of readers (`SHARED`), one connection that
/// intends to write (`RESERVED`), one that writes (`EXCLUSIVE`).
final class OpenFile {
    static let costOfRead: UInt64 = 4_000
    static let costOfWrite: UInt64 = 6_000
    static let costOfSync: UInt64 = 300_000

    let disk: SimulatedDisk
    let epoch: Int
    let path: String
    private(set) var file: SimulatedFile
    let isDeletedOnClose: Bool
    /// The first sync of a new journal makes its name durable too, as SQLite requires of a VFS.
    private var syncsDirectory: Bool
    private(set) var lock = SQLITE_LOCK_NONE
    private var memory: SharedMemory?
    private var shared: Set<Int> = []
    private var exclusive: Set<Int> = []

    init(
        _ file: SimulatedFile,
        path: String,
        epoch: Int,
        disk: SimulatedDisk,
        isNewJournal: Bool,
        isDeletedOnClose: Bool
    ) {
        self.file = file
        self.path = path
        self.epoch = epoch
        self.disk = disk
        self.isDeletedOnClose = isDeletedOnClose
        syncsDirectory = isNewJournal
        file.openFiles.append(self)
        disk.track(self)
    }

    var isAlive: Bool { disk.isAlive(epoch) }

    private func isRefused(_ cost: UInt64, isChange: Bool) -> Bool {
        disk.operate(epoch, nanoseconds: cost, isChange: isChange) == .failed
    }

    // MARK: Bytes

    func read(into target: UnsafeMutableRawPointer, _ count: Int, at offset: Int) -> Int32 {
        if isRefused(OpenFile.costOfRead, isChange: false) { return VFSCode.readFailed }
        let there = max(0, min(count, file.size - offset))
        if there > 0 { Memory.copy(to: target, from: file.live.start + offset, count: there) }
        guard there < count else { return SQLITE_OK }
        (target + there).initializeMemory(as: UInt8.self, repeating: 0, count: count - there)
        return VFSCode.shortRead
    }

    func write(_ bytes: ByteView, at offset: Int) -> Int32 {
        let growth = offset + bytes.count - file.size
        guard disk.hasRoom(growth) else { return SQLITE_FULL }
        if isRefused(OpenFile.costOfWrite, isChange: true) { return VFSCode.writeFailed }
        file.write(bytes, at: offset)
        if growth > 0 { disk.grew(by: growth) }
        return SQLITE_OK
    }

    func truncate(to size: Int) -> Int32 {
        if isRefused(OpenFile.costOfWrite, isChange: true) { return VFSCode.truncateFailed }
        disk.grew(by: size - file.size)
        file.resize(to: size)
        return SQLITE_OK
    }

    func sync() -> Int32 {
        if isRefused(OpenFile.costOfSync, isChange: true) {
            // As on Linux: the unwritten pages are discarded, and the next sync succeeds.
            if isAlive { disk.failSync(file) }
            return VFSCode.syncFailed
        }
        file.sync()
        disk.countSync(file)
        guard syncsDirectory else { return SQLITE_OK }
        syncsDirectory = false
        disk.syncDirectory(SimulatedDisk.parent(of: path))
        return SQLITE_OK
    }

    func size() -> Int? { isAlive ? file.size : nil }

    func close() {
        unmapMemory()
        lock = SQLITE_LOCK_NONE
        file.openFiles.removeAll { $0 === self }
        if isDeletedOnClose, isAlive { disk.unlink(path) }
    }

    /// Releases the content after the process died: the handle is never closed.
    func abandon() { file = SimulatedFile() }

    // MARK: Locks

    private func otherHandles(hold level: Int32) -> Bool {
        file.openFiles.contains { $0 !== self && $0.lock >= level }
    }

    func raise(to level: Int32) -> Int32 {
        guard isAlive else { return VFSCode.lockFailed }
        guard level > lock else { return SQLITE_OK }
        switch level {
        case SQLITE_LOCK_SHARED:
            guard !otherHandles(hold: SQLITE_LOCK_PENDING) else { return SQLITE_BUSY }
        case SQLITE_LOCK_RESERVED:
            guard !otherHandles(hold: SQLITE_LOCK_RESERVED) else { return SQLITE_BUSY }
        default:
            guard !otherHandles(hold: SQLITE_LOCK_RESERVED) else { return SQLITE_BUSY }
            guard !otherHandles(hold: SQLITE_LOCK_SHARED) else {
                // PENDING blocks new readers, so that the current readers finish.
                if lock < SQLITE_LOCK_PENDING { lock = SQLITE_LOCK_PENDING }
                return SQLITE_BUSY
            }
        }
        lock = level
        return SQLITE_OK
    }

    func lower(to level: Int32) { lock = min(lock, level) }

    var isReserved: Bool {
        lock >= SQLITE_LOCK_RESERVED || otherHandles(hold: SQLITE_LOCK_RESERVED)
    }

    // MARK: Shared memory

    func mapMemory(_ index: Int, bytes: Int, extends: Bool) -> UnsafeMutableRawPointer? {
        let memory = memory ?? joinMemory()
        return memory.region(index, bytes: bytes, extends: extends)
    }

    private func joinMemory() -> SharedMemory {
        let joined = file.sharedMemory ?? SharedMemory()
        file.sharedMemory = joined
        joined.users += 1
        memory = joined
        return joined
    }

    func lockMemory(_ locks: Range<Int>, _ flags: Int32) -> Int32 {
        guard isAlive, let memory else { return VFSCode.lockFailed }
        if flags & SQLITE_SHM_UNLOCK != 0 {
            for lock in locks
            where shared.remove(lock) != nil || exclusive.remove(lock) != nil {
                memory.release(lock)
            }
        } else if flags & SQLITE_SHM_SHARED != 0 {
            guard locks.allSatisfy({ shared.contains($0) || memory.mayShare($0) }) else {
                return SQLITE_BUSY
            }
            for lock in locks where shared.insert(lock).inserted { memory.acquireShared(lock) }
        } else {
            let isFree = locks.allSatisfy { exclusive.contains($0) || memory.isFree($0) }
            guard isFree else { return SQLITE_BUSY }
            for lock in locks where exclusive.insert(lock).inserted {
                memory.acquireExclusive(lock)
            }
        }
        return SQLITE_OK
    }

    func unmapMemory() {
        guard let left = memory else { return }
        for lock in shared.union(exclusive) { left.release(lock) }
        shared = []
        exclusive = []
        memory = nil
        left.users -= 1
        if left.users == 0, file.sharedMemory === left { file.sharedMemory = nil }
    }
}

struct WeakOpenFile {
    weak var value: OpenFile?
}
