internal import Bytes
package import Seams

/// Another disk whose changes fail when a test requests it.
package final class FaultyDisk: Disk {
    private let disk: any Disk
    private let full = Guarded(false)
    private let failuresLeft = Guarded(0)

    package init(over disk: any Disk = FileDisk()) { self.disk = disk }

    /// Whether new directories, small files and renames are refused.
    ///
    /// Every lane file needs a small file before its first commit.
    package var isFull: Bool {
        get { full.withLock { $0 } }
        set { full.withLock { $0 = newValue } }
    }

    /// Lets the next `count` replacements fail although the file was replaced, as when the sync of
    /// its directory fails.
    package func failAfterReplacing(_ count: Int) { failuresLeft.withLock { $0 = count } }

    private func check(_ path: String) throws(DiskError) {
        guard isFull else { return }
        throw DiskError(code: .full, path: path, description: "no room for \(path)")
    }

    package var vfsName: String? { disk.vfsName }

    package func createDirectory(_ path: String) throws(DiskError) {
        try check(path)
        try disk.createDirectory(path)
    }

    package func list(_ path: String) throws(DiskError) -> [String] { try disk.list(path) }

    package func read(_ path: String) throws(DiskError) -> [UInt8]? { try disk.read(path) }

    package func replace(_ path: String, with bytes: [UInt8]) throws(DiskError) {
        try check(path)
        try disk.replace(path, with: bytes)
        let fails = failuresLeft.withLock { left in
            defer { left = max(left - 1, 0) }
            return left > 0
        }
        guard fails else { return }
        throw DiskError(code: .failed, path: path, description: "cannot sync \(path)")
    }

    package func rename(_ path: String, to newPath: String) throws(DiskError) {
        try check(path)
        try disk.rename(path, to: newPath)
    }

    package func remove(_ path: String) throws(DiskError) { try disk.remove(path) }

    package func rewriteDurably(_ path: String) throws(DiskError) {
        try disk.rewriteDurably(path)
    }

    package func lockDirectory(_ path: String) throws(DiskError) -> Bool {
        try disk.lockDirectory(path)
    }

    package func size(_ path: String) throws(DiskError) -> UInt64 { try disk.size(path) }

    package func space(_ path: String) throws(DiskError) -> (free: UInt64, total: UInt64) {
        try disk.space(path)
    }
}
