internal import Bytes

/// The disk of one host: names and files, and the state of each that survives a power cut.
///
/// - A name is durable after its directory was synced, content after its file was synced.
/// - Each start mounts the disk again (`epoch`); operations of an earlier mount fail, so a dead
///   process cannot change the disk.
/// - Operations are counted, so that a crash can be scheduled in the middle of a commit.
package final class SimulatedDisk: @unchecked Sendable {  // tidy:allow one thread
    private enum NameChange {
        case link(String, SimulatedFile)
        case unlink(String)

        var path: String {
            switch self {
            case .link(let path, _), .unlink(let path): path
            }
        }
    }

    /// Whether every growth of a file is refused.
    package var isFull = false
    /// Extra nanoseconds that each operation takes.
    package internal(set) var slowness: UInt64 = 0
    /// How many of a thousand operations fail.
    package var errorsPerMille = 0
    /// Bytes.
    package let capacity: UInt64 = 64 << 30
    /// Changing operations since the world began.
    package private(set) var operations = 0
    /// Syncs of files since the world began.
    package private(set) var syncs = 0
    /// Called at the operation for which a crash was scheduled.
    var cut: (_ isPower: Bool) -> Void = { _ in }

    let queue: RunQueue
    let clock: SimulatedClock
    /// The SQLite VFS of this disk.
    private(set) var vfs: SimulatedVFS?
    /// The number of mounts so far; 0 before the first.
    private(set) var epoch = 0
    private var isMounted = false
    private var random: SeededRandom
    private(set) var files: [String: SimulatedFile] = [:]
    private var durableNames: [String: SimulatedFile] = [:]
    private var pendingNames: [NameChange] = []
    private(set) var directories: Set<String> = []
    private(set) var usedBytes = 0
    private var opened: [WeakOpenFile] = []
    private var cutAt: (operation: Int, isPower: Bool)?

    init(seed: UInt64, queue: RunQueue, clock: SimulatedClock) {
        random = SeededRandom(seed: seed)
        self.queue = queue
        self.clock = clock
    }

    // MARK: Life

    func mount() -> MountedDisk {
        epoch += 1
        isMounted = true
        let vfs = self.vfs ?? SimulatedVFS(disk: self)
        self.vfs = vfs
        return MountedDisk(disk: self, epoch: epoch, vfsName: vfs.name)
    }

    func isAlive(_ epoch: Int) -> Bool { isMounted && epoch == self.epoch }

    /// Ends the mount of a dead process; a power cut also drops unsynced changes at random.
    func unmount(isPower: Bool) {
        isMounted = false
        cutAt = nil
        forgetOpenFiles()
        if isPower { losePower() }
    }

    func dismantle() {
        isMounted = false
        cut = { _ in }
        vfs?.unregister()
        vfs = nil
        forgetOpenFiles()
        files = [:]
        durableNames = [:]
        pendingNames = []
    }

    private func forgetOpenFiles() {
        let opened = opened
        self.opened = []
        for open in opened {
            open.value?.file.openFiles = []
            open.value?.file.sharedMemory = nil
            open.value?.abandon()
        }
    }

    /// Registers an open handle.
    ///
    /// The disk tracks handles itself because a deleted or replaced file may still be open.
    func track(_ open: OpenFile) {
        if opened.count >= 64 { opened.removeAll { $0.value == nil } }
        opened.append(WeakOpenFile(value: open))
    }

    private func losePower() {
        for change in pendingNames where random.next() & 1 == 0 { applyToDurable(change) }
        pendingNames = []
        files = durableNames
        usedBytes = 0
        for path in files.keys.sorted() {
            guard let file = files[path] else { continue }
            file.losePower(&random)
            usedBytes += file.size
        }
    }

    // MARK: Operations

    /// Schedules a crash or power cut at the `count`-th changing operation from now.
    package func cutAfter(operations count: Int, isPower: Bool) {
        guard isMounted else { return }
        cutAt = (operations + count, isPower)
    }

    enum Decision {
        case done
        case failed
    }

    /// Accounts for one operation: stalls the current work item by its cost and decides whether it
    /// fails.
    func operate(_ epoch: Int, nanoseconds: UInt64, isChange: Bool) -> Decision {
        queue.checkThread()
        guard isAlive(epoch) else { return .failed }
        queue.stall(nanoseconds, slow: slowness)
        if isChange {
            operations += 1
            if let cutAt, operations >= cutAt.operation {
                self.cutAt = nil
                cut(cutAt.isPower)
                return .failed
            }
        }
        if errorsPerMille > 0, Int(random.next() % 1_000) < errorsPerMille { return .failed }
        return .done
    }

    /// Whether the disk has space for this many more bytes.
    func hasRoom(_ bytes: Int) -> Bool {
        bytes <= 0 || !isFull && usedBytes + bytes <= Int(capacity)
    }

    func grew(by bytes: Int) { usedBytes += bytes }

    func countSync(_ file: SimulatedFile) {
        syncs += 1
        queue.fold(UInt64(file.size))
    }

    func failSync(_ file: SimulatedFile) { file.loseSync(&random) }

    func draw() -> UInt64 { random.next() }

    /// Flips one bit of one byte in a random file whose name ends with `suffix`; false if there is
    /// no such file or it is empty.
    package func flipByte(suffix: String) -> Bool {
        let names = files.keys.filter { $0.hasSuffix(suffix) }.sorted()
        guard !names.isEmpty else { return false }
        let name = names[Int(random.next() % UInt64(names.count))]
        guard let file = files[name], file.size > 0 else { return false }
        let mask = UInt8(1) << UInt8(random.next() & 7)
        file.flipByte(at: Int(random.next() % UInt64(file.size)), mask)
        return true
    }

    // MARK: Names

    func create(_ path: String) -> SimulatedFile {
        let file = SimulatedFile()
        files[path] = file
        pendingNames.append(.link(path, file))
        return file
    }

    func unlink(_ path: String) {
        guard let file = files.removeValue(forKey: path) else { return }
        usedBytes -= file.size
        pendingNames.append(.unlink(path))
    }

    func move(_ path: String, to newPath: String) {
        guard let file = files.removeValue(forKey: path) else { return }
        if let old = files[newPath] { usedBytes -= old.size }
        files[newPath] = file
        pendingNames.append(.link(newPath, file))
        pendingNames.append(.unlink(path))
    }

    /// Makes the current names in a directory durable.
    func syncDirectory(_ directory: String) {
        guard !pendingNames.isEmpty else { return }
        var left: [NameChange] = []
        for change in pendingNames {
            if SimulatedDisk.parent(of: change.path) == directory {
                applyToDurable(change)
            } else {
                left.append(change)
            }
        }
        pendingNames = left
    }

    /// Renames a directory and everything in it, durably and atomically.
    func moveDirectory(_ path: String, to newPath: String) {
        func moved(_ name: String) -> String {
            name == path || name.hasPrefix(path + "/")
                ? newPath + name.dropFirst(path.count) : name
        }
        directories = Set(directories.map(moved))
        files = Dictionary(uniqueKeysWithValues: files.map { (moved($0.key), $0.value) })
        durableNames = Dictionary(
            uniqueKeysWithValues: durableNames.map { (moved($0.key), $0.value) }
        )
        pendingNames = pendingNames.map { change in
            switch change {
            case .link(let name, let file): .link(moved(name), file)
            case .unlink(let name): .unlink(moved(name))
            }
        }
    }

    func makeDirectory(_ path: String) { directories.insert(path) }

    func removeDirectory(_ path: String) { directories.remove(path) }

    private func applyToDurable(_ change: NameChange) {
        switch change {
        case .link(let path, let file): durableNames[path] = file
        case .unlink(let path): durableNames[path] = nil
        }
    }

    static func parent(of path: String) -> String {
        guard let slash = path.lastIndex(of: "/") else { return "" }
        return String(path[..<slash])
    }
}
