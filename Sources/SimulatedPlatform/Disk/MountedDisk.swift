internal import Bytes
internal import Seams

/// A host's disk as mounted by one process: the `Disk` seam, with the semantics of `LinuxDisk`.
///
/// - `replace` and `rename` are durable when they return. A crash in between leaves the old state or
///   the new one, and possibly a `NAME.tmp`.
struct MountedDisk: Disk {
    let disk: SimulatedDisk
    let epoch: Int
    private let name: String
    var vfsName: String? { name }

    private static let operationNanoseconds: UInt64 = 20_000
    private static let syncNanoseconds: UInt64 = 400_000

    init(disk: SimulatedDisk, epoch: Int, vfsName: String) {
        self.disk = disk
        self.epoch = epoch
        name = vfsName
    }

    private func operate(
        _ attempt: String,
        _ path: String,
        isChange: Bool = false,
        isSync: Bool = false
    ) throws(DiskError) {
        let cost = isSync ? MountedDisk.syncNanoseconds : MountedDisk.operationNanoseconds
        if disk.operate(epoch, nanoseconds: cost, isChange: isChange) == .failed {
            throw error(
                .failed,
                attempt,
                at: path,
                reason: "the device reported an input/output error"
            )
        }
    }

    private func error(
        _ code: DiskError.Code,
        _ attempt: String,
        at path: String,
        reason: String
    ) -> DiskError {
        DiskError(code: code, path: path, description: "cannot \(attempt) \(path): \(reason)")
    }

    private func checkRoom(
        _ bytes: Int,
        _ attempt: String,
        at path: String
    ) throws(DiskError) {
        guard disk.hasRoom(max(bytes, 1)) else {
            throw error(.full, attempt, at: path, reason: "the file system has no space left")
        }
    }

    private func isDirectory(_ path: String) -> Bool {
        path == "" || path == "/" || disk.directories.contains(path)
    }

    // MARK: Disk

    func createDirectory(_ path: String) throws(DiskError) {
        guard !isDirectory(path) else { return }
        if disk.files[path] != nil {
            throw error(
                .notADirectory,
                "create the directory",
                at: path,
                reason: "a file with this name exists"
            )
        }
        try createDirectory(SimulatedDisk.parent(of: path))
        try checkRoom(0, "create the directory", at: path)
        try operate("create the directory", path, isChange: true, isSync: true)
        disk.makeDirectory(path)
    }

    func list(_ path: String) throws(DiskError) -> [String] {
        try operate("list", path)
        let prefix = path + "/"
        var names: Set<Substring> = []
        for name in Array(disk.files.keys) + Array(disk.directories) where name.hasPrefix(prefix) {
            names.insert(name.dropFirst(prefix.count).prefix { $0 != "/" })
        }
        return names.map(String.init).sorted()
    }

    func read(_ path: String) throws(DiskError) -> [UInt8]? {
        try operate("read", path)
        return disk.files[path]?.live.bytes
    }

    func replace(_ path: String, with bytes: [UInt8]) throws(DiskError) {
        let temporary = path + ".tmp"
        do throws(DiskError) {
            try checkParent(of: path, "write")
            try checkRoom(bytes.count, "write", at: temporary)
            try operate("write", temporary, isChange: true)
            disk.unlink(temporary)
            let file = disk.create(temporary)
            bytes.withUnsafeBytes { file.write(ByteView($0), at: 0) }
            disk.grew(by: bytes.count)
            try operate("write", temporary, isChange: true, isSync: true)
            file.sync()
            try operate("replace", path, isChange: true)
            disk.move(temporary, to: path)
        } catch {
            if disk.isAlive(epoch) { disk.unlink(temporary) }
            throw error
        }
        try syncParent(of: path)
    }

    func rename(_ path: String, to newPath: String) throws(DiskError) {
        let attempt = "rename to \(newPath) the path"
        try operate(attempt, path, isChange: true)
        try checkParent(of: newPath, attempt)
        if disk.files[path] != nil {
            disk.move(path, to: newPath)
        } else if isDirectory(path) {
            guard try list(newPath).isEmpty else {
                throw error(.failed, attempt, at: path, reason: "the directory is not empty")
            }
            disk.moveDirectory(path, to: newPath)
        } else {
            throw error(.missing, attempt, at: path, reason: "there is no such file or directory")
        }
        try syncParent(of: newPath)
        if SimulatedDisk.parent(of: path) != SimulatedDisk.parent(of: newPath) {
            try syncParent(of: path)
        }
    }

    func remove(_ path: String) throws(DiskError) {
        try operate("remove", path, isChange: true)
        if disk.files[path] != nil {
            disk.unlink(path)
            return try syncParent(of: path)
        }
        guard disk.directories.contains(path) else { return }
        for name in try list(path) { try remove(path + "/" + name) }
        disk.removeDirectory(path)
        try syncParent(of: path)
    }

    func rewriteDurably(_ path: String) throws(DiskError) {
        guard let file = disk.files[path] else { return }
        try operate("write again", path, isChange: true)
        let bytes = file.live.bytes
        bytes.withUnsafeBytes { file.write(ByteView($0), at: 0) }
        do throws(DiskError) {
            try operate("sync", path, isChange: true, isSync: true)
        } catch {
            if disk.isAlive(epoch) { disk.failSync(file) }
            throw error
        }
        file.sync()
        disk.countSync(file)
        try syncParent(of: path)
    }

    /// Only one process runs on a host, so the lock is always free.
    func lockDirectory(_ path: String) throws(DiskError) -> Bool {
        let file = path + "/lock"
        try operate("lock", file, isChange: true)
        try checkParent(of: file, "lock")
        if disk.files[file] == nil { _ = disk.create(file) }
        return true
    }

    func size(_ path: String) throws(DiskError) -> UInt64 {
        try operate("measure", path)
        if let file = disk.files[path] { return UInt64(file.size) }
        guard isDirectory(path) else { return 0 }
        var sum: UInt64 = 0
        for name in try list(path) { sum += try size(path + "/" + name) }
        return sum
    }

    func space(_ path: String) throws(DiskError) -> (free: UInt64, total: UInt64) {
        try operate("measure the file system of", path)
        let used = UInt64(max(0, disk.usedBytes))
        return (free: disk.isFull ? 0 : disk.capacity - used, total: disk.capacity)
    }

    private func checkParent(of path: String, _ attempt: String) throws(DiskError) {
        guard isDirectory(SimulatedDisk.parent(of: path)) else {
            throw error(.missing, attempt, at: path, reason: "there is no such file or directory")
        }
    }

    private func syncParent(of path: String) throws(DiskError) {
        try operate("sync", path, isChange: true, isSync: true)
        disk.syncDirectory(SimulatedDisk.parent(of: path))
    }
}
