import Foundation
import LinuxPlatform
import Seams
import Testing

@Suite final class DiskTests {
    let disk = LinuxDisk()
    let root: String

    init() throws {
        root =
            FileManager.default.temporaryDirectory
            .appending(path: "divan-disk-\(UUID().uuidString)").path
        try disk.createDirectory(root + "/a/b/c")
    }

    deinit { try? FileManager.default.removeItem(atPath: root) }

    @Test func replaceStoresTheWholeContent() throws {
        let path = root + "/settings.json"
        #expect(try disk.read(path) == nil)
        for size in [0, 1, 200_000, 3] {
            let content = (0..<size).map { UInt8(truncatingIfNeeded: $0) }
            try disk.replace(path, with: content)
            #expect(try disk.read(path) == content)
            #expect(try disk.size(path) == UInt64(size))
        }
        #expect(try disk.list(root) == ["a", "settings.json"])
    }

    @Test func fillExtendsAFileWithZerosAndNeverTruncatesIt() throws {
        let path = root + "/log"
        try disk.preallocate(path, to: 1_000)
        #expect(try disk.list(root) == ["a"])
        try disk.replace(path, with: [1, 2, 3])
        try disk.preallocate(path, to: 700_001)
        let content = try #require(try disk.read(path))
        #expect(content.count == 700_001)
        #expect(content.starts(with: [1, 2, 3]) && content.dropFirst(3).allSatisfy { $0 == 0 })
        try disk.preallocate(path, to: 2)
        #expect(try disk.size(path) == 700_001)
        // Blocks are allocated and written, so overwriting them changes no metadata.
        var status = stat()
        #expect(stat(path, &status) == 0 && Int(status.st_blocks) * 512 >= 700_001)
    }

    /// The file is rewritten in place, so open descriptors of it stay valid.
    @Test func securePreservesContentAndInode() throws {
        try disk.rewriteDurably(root + "/nothing")
        #expect(try disk.list(root) == ["a"])
        let path = root + "/log"
        for size in [0, 1, 262_144, 700_001] {
            let content = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 7) }
            try disk.replace(path, with: content)
            let inode = try FileManager.default.attributesOfItem(atPath: path)[.systemFileNumber]
            try disk.rewriteDurably(path)
            #expect(try disk.read(path) == content)
            let after = try FileManager.default.attributesOfItem(atPath: path)[.systemFileNumber]
            #expect(inode as? Int == after as? Int)
        }
        #expect(throws: DiskError.self) { try disk.rewriteDurably(root + "/a") }
    }

    @Test func concurrentReplacesDoNotMixContents() throws {
        let (disk, path) = (disk, root + "/shared")
        let writers = (0..<4).map { writer in
            InBackground {
                for _ in 0..<20 {
                    try disk.replace(path, with: [UInt8](repeating: UInt8(writer), count: 10_000))
                }
            }
        }
        for writer in writers { try writer.wait() }
        let content = try #require(try disk.read(path))
        #expect(content.count == 10_000)
        #expect(Set(content).count == 1)
    }

    @Test func listIsSortedAndSizeSumsADirectory() throws {
        for name in ["z", "a", "m"] { try disk.replace(root + "/a/" + name, with: [1, 2, 3]) }
        try disk.replace(root + "/a/b/c/deep", with: [1])
        #expect(try disk.list(root + "/a") == ["a", "b", "m", "z"])
        #expect(try disk.size(root) == 10)
        #expect(try disk.list(root + "/none") == [])
        #expect(try disk.size(root + "/none") == 0)
    }

    @Test func renameAndRemoveIncludeADirectorysContent() throws {
        try disk.replace(root + "/a/b/c/file", with: [1])
        try disk.rename(root + "/a/b", to: root + "/moved")
        #expect(try disk.read(root + "/moved/c/file") == [1])
        try disk.remove(root + "/moved")
        try disk.remove(root + "/moved")
        #expect(try disk.list(root) == ["a"])
        // A link is removed, but not its target.
        try disk.replace(root + "/kept", with: [1])
        try FileManager.default.createSymbolicLink(
            atPath: root + "/a/link",
            withDestinationPath: root
        )
        try disk.remove(root + "/a")
        #expect(try disk.read(root + "/kept") == [1])
    }

    @Test func claimOfADirectoryFailsUntilItsHolderIsReleased() throws {
        #expect(try disk.lockDirectory(root))
        #expect(try !disk.lockDirectory(root))
        var other: LinuxDisk? = LinuxDisk()
        #expect(try other?.lockDirectory(root) == false)
        #expect(try other?.lockDirectory(root + "/a") == true)
        #expect(try !disk.lockDirectory(root + "/a"))
        other = nil
        #expect(try disk.lockDirectory(root + "/a"))
    }

    @Test func killedProcessReleasesItsClaim() throws {
        let holder = Process()
        holder.executableURL = URL(filePath: "/usr/bin/flock")
        holder.arguments = [root + "/lock", "-c", "echo held; exec sleep 60"]
        let pipe = Pipe()
        holder.standardOutput = pipe
        try holder.run()
        #expect(pipe.fileHandleForReading.availableData == Data("held\n".utf8))
        #expect(try !disk.lockDirectory(root))
        // flock runs the command as its child, which holds the lock too.
        let number = holder.processIdentifier
        let list = "/proc/\(number)/task/\(number)/children"
        let children = try String(contentsOfFile: list, encoding: .utf8)
        for child in children.split(separator: " ").compactMap({ pid_t($0) }) {
            kill(child, SIGKILL)
        }
        kill(holder.processIdentifier, SIGKILL)
        holder.waitUntilExit()
        var isClaimed = false
        for _ in 0..<1_000 where !isClaimed {
            isClaimed = try disk.lockDirectory(root)
            usleep(10_000)
        }
        #expect(isClaimed)
    }

    @Test func diskErrorHasTheCodeOfItsCauseAndNamesThePath() throws {
        try disk.replace(root + "/file", with: [1])
        let cases: [(DiskError.Code, () throws -> Void)] = [
            (.notADirectory, { try self.disk.createDirectory(self.root + "/file") }),
            (.notADirectory, { try self.disk.createDirectory(self.root + "/file/below") }),
            (.notADirectory, { _ = try self.disk.list(self.root + "/file") }),
            (.missing, { try self.disk.rename(self.root + "/none", to: self.root + "/other") }),
            (.missing, { try self.disk.replace(self.root + "/none/file", with: []) }),
            (.missing, { _ = try self.disk.lockDirectory(self.root + "/none") }),
        ]
        for (code, attempt) in cases {
            let error = #expect(throws: DiskError.self) { try attempt() }
            #expect(error?.code == code)
            #expect(error?.description.contains(self.root) == true)
        }
    }

    @Test func replaceOnAFullDiskKeepsTheOldContent() throws {
        let path = root + "/settings"
        try disk.replace(path, with: [1])
        // The temporary file is a link to the kernel's device that is always full.
        try FileManager.default.createSymbolicLink(
            atPath: path + ".tmp",
            withDestinationPath: "/dev/full"
        )
        let error = #expect(throws: DiskError.self) { try disk.replace(path, with: [2]) }
        #expect(error?.code == .full)
        #expect(error?.description.contains("no space left") == true)
        #expect(try disk.read(path) == [1])
        #expect(try disk.list(root) == ["a", "settings"])
    }

    @Test func replaceWithoutPermissionIsDenied() throws {
        // The superuser is never denied.
        guard geteuid() != 0 else { return }
        chmod(root + "/a", 0o500)
        defer { chmod(root + "/a", 0o700) }
        let error = #expect(throws: DiskError.self) { try disk.replace(root + "/a/x", with: [1]) }
        #expect(error?.code == .denied)
        #expect(error?.description.contains("permission") == true)
    }

    @Test func spaceReportsFreeAndTotalBytes() throws {
        let space = try disk.space(root)
        #expect(space.free > 0)
        #expect(space.total >= space.free)
    }
}
