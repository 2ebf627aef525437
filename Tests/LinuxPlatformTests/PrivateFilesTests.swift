import Foundation
import LinuxPlatform
import Seams
import Testing

/// `PrivateFiles`: which modes a directory has afterwards, and which directories are refused.
@Suite final class PrivateFilesTests {
    let disk = LinuxDisk()
    let root: String

    init() throws {
        root =
            FileManager.default.temporaryDirectory
            .appending(path: "divan-private-\(UUID().uuidString)").path
        try disk.createDirectory(root + "/buckets/one")
        try disk.replace(root + "/control", with: [1])
        try disk.replace(root + "/buckets/one/lane", with: [2])
    }

    deinit { try? FileManager.default.removeItem(atPath: root) }

    private func mode(_ path: String) -> mode_t {
        var status = stat()
        return lstat(path, &status) == 0 ? status.st_mode & 0o7777 : 0
    }

    private var paths: [String] {
        let below = FileManager.default.enumerator(atPath: root)?.compactMap { $0 as? String } ?? []
        return [root] + below.sorted().map { root + "/" + $0 }
    }

    private var modes: [mode_t] { paths.map(mode) }

    @Test func newFilesAndDirectoriesArePrivate() throws {
        #expect(try disk.lockDirectory(root))
        #expect(paths.count == 6)
        #expect(modes.sorted() == [0o600, 0o600, 0o600, 0o700, 0o700, 0o700])
    }

    @Test func lockDirectoryMakesExistingFilesPrivate() throws {
        for path in paths { chmod(path, mode(path) == 0o700 ? 0o755 : 0o644) }
        #expect(modes.sorted() == [0o644, 0o644, 0o755, 0o755, 0o755])
        #expect(try disk.lockDirectory(root))
        #expect(modes.sorted() == [0o600, 0o600, 0o600, 0o700, 0o700, 0o700])
    }

    @Test(arguments: ["", "/buckets", "/buckets/one"])
    func directoryThatOthersMayWriteIsRefusedWithTheCommand(below: String) throws {
        for mode in [mode_t(0o775), 0o757, 0o1777] {
            chmod(root + below, mode)
            chmod(root + "/control", 0o644)
            let error = #expect(throws: DiskError.self) { try disk.lockDirectory(root) }
            #expect(error?.code == .denied)
            #expect(error?.description.contains("chmod -R go-rwx \(root)") == true)
            // A directory that was named by mistake stays as it was.
            #expect(self.mode(root + "/control") == 0o644)
            #expect(self.mode(root + below) == mode)
        }
        chmod(root + below, 0o700)
        #expect(try disk.lockDirectory(root))
    }

    @Test func linkInADirectoryIsRefusedAndItsTargetUnchanged() throws {
        let outside = root + "-outside"
        try disk.replace(outside, with: [3])
        defer { try? FileManager.default.removeItem(atPath: outside) }
        chmod(outside, 0o644)
        try FileManager.default.createSymbolicLink(
            atPath: root + "/buckets/link",
            withDestinationPath: outside
        )
        let error = #expect(throws: DiskError.self) { try disk.lockDirectory(root) }
        #expect(error?.description.contains("symbolic link") == true)
        #expect(mode(outside) == 0o644)
    }

    @Test func dataDirectoryMayBeALink() throws {
        let link = root + "-link"
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: root)
        defer { unlink(link) }
        chmod(root, 0o755)
        #expect(try disk.lockDirectory(link))
        #expect(mode(root) == 0o700)
    }

    @Test func directoryOfAnotherUserIsRefusedWithTheCommand() throws {
        // Only the superuser can give a directory to another user.
        guard geteuid() == 0 else { return }
        for path in [root, root + "/buckets/one/lane"] {
            chown(path, 65_534, 65_534)
            let error = #expect(throws: DiskError.self) { try disk.lockDirectory(root) }
            #expect(error?.description.contains("belongs to user 65534") == true)
            #expect(error?.description.contains("chown -R 0 \(root)") == true)
            chown(path, 0, 0)
        }
        #expect(try disk.lockDirectory(root))
    }

    @Test func commandQuotesAPathWithSpaces() throws {
        let spaced = root + "/it's here"
        try disk.createDirectory(spaced)
        chmod(spaced, 0o777)
        let error = #expect(throws: DiskError.self) { try PrivateFiles.check(directory: spaced) }
        #expect(error?.description.contains("chmod -R go-rwx '\(root)/it'\\''s here'") == true)
    }
}
