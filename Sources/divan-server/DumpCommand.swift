import Bytes
import Foundation
import LinuxPlatform
import Server

/// `--dump`, `--identity`, `--dump-index` and `--check-index`: what a data directory and an index file
/// have.
///
/// Documents and rows are on standard output, as are the findings of a check; notes on omitted or
/// unreadable data are on standard error.
enum DumpCommand {
    /// A check has found violations; they are printed already.
    struct Violations: Error {}

    static func write(_ directory: String) throws {
        let dump = DataDump(disk: LinuxDisk())
        let report = { (text: String) in
            FileHandle.standardError.write(Data("divan-server: \(text)\n".utf8))
        }
        try dump.lines(of: directory, damage: report, note: report, write: print)
    }

    static func writeIdentity(_ directory: String) throws {
        let line = try DirectoryIdentity(disk: LinuxDisk()).line(of: directory)
        FileHandle.standardOutput.write(Data(line))
    }

    static func writeIndex(_ path: String) throws {
        try IndexDump(disk: LinuxDisk()).lines(of: path) { print($0) }
    }

    static func checkIndex(_ path: String) throws {
        let isSound = try IndexDump(disk: LinuxDisk()).check(path) { sentence in
            FileHandle.standardOutput.write(Data("\(sentence)\n".utf8))
        }
        if !isSound { throw Violations() }
    }

    private static func print(_ line: ByteView) {
        FileHandle.standardOutput.write(Data(line.bytes))
    }
}
