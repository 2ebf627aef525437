internal import Foundation
package import Seams

/// The `Disk` seam over Foundation, without syncs: for tests that check content.
package struct FileDisk: Disk {
    package init() {}

    package var vfsName: String? { nil }

    private func attempt<Result>(_ path: String, _ body: () throws -> Result) throws(DiskError)
        -> Result
    {
        do {
            return try body()
        } catch {
            throw DiskError(code: .failed, path: path, description: "\(path): \(error)")
        }
    }

    package func createDirectory(_ path: String) throws(DiskError) {
        try attempt(path) {
            try FileManager.default.createDirectory(
                atPath: path,
                withIntermediateDirectories: true
            )
        }
    }

    package func list(_ path: String) throws(DiskError) -> [String] {
        guard FileManager.default.fileExists(atPath: path) else { return [] }
        return try attempt(path) { try FileManager.default.contentsOfDirectory(atPath: path) }
            .sorted()
    }

    package func read(_ path: String) throws(DiskError) -> [UInt8]? {
        guard FileManager.default.fileExists(atPath: path) else { return nil }
        return try attempt(path) { [UInt8](try Data(contentsOf: URL(filePath: path))) }
    }

    package func replace(_ path: String, with bytes: [UInt8]) throws(DiskError) {
        try attempt(path) { try Data(bytes).write(to: URL(filePath: path), options: .atomic) }
    }

    package func rename(_ path: String, to newPath: String) throws(DiskError) {
        try attempt(path) { try FileManager.default.moveItem(atPath: path, toPath: newPath) }
    }

    package func remove(_ path: String) throws(DiskError) {
        guard FileManager.default.fileExists(atPath: path) else { return }
        try attempt(path) { try FileManager.default.removeItem(atPath: path) }
    }

    /// Does nothing: no write fails here.
    package func rewriteDurably(_ path: String) throws(DiskError) {}

    package func lockDirectory(_ path: String) throws(DiskError) -> Bool { true }

    package func size(_ path: String) throws(DiskError) -> UInt64 {
        guard FileManager.default.fileExists(atPath: path) else { return 0 }
        return try attempt(path) {
            let attributes = try FileManager.default.attributesOfItem(atPath: path)
            return (attributes[.size] as? NSNumber)?.uint64Value ?? 0
        }
    }

    package func space(_ path: String) throws(DiskError) -> (free: UInt64, total: UInt64) {
        (1 << 40, 1 << 40)
    }
}
